"""What drafts tokens, as flags of vLLM and SGLang say it."""

from __future__ import annotations

from rackmath.serving.quoting import Setting

OWN, TEXT = "own", "text"
"""Drafts by the model's own layers, and by looking up the text."""
HEAD = "EAGLE3_HEAD"
"""Stands for the repository of a head that nobody has named."""
_LOOKUP = 5
"""Longest n-gram that is looked up in the text for drafts. [tokens]"""


def vllm_drafts(draft: str, tokens: int, *, eagle: bool) -> Setting:
    """Value of vLLM's ``--speculative-config``; ``draft`` is OWN, TEXT, or the repository of another model."""
    count = {"num_speculative_tokens": tokens}
    if draft == OWN:
        return {"method": "mtp", **count}
    if draft == TEXT:
        return {"method": "ngram", **count, "prompt_lookup_max": _LOOKUP}
    return {"method": "eagle3" if eagle else "draft_model", "model": draft, **count}


def sglang_drafts(draft: str, tokens: int, *, eagle: bool) -> list[str]:
    """Flags of SGLang; ``draft`` as of :func:`vllm_drafts`."""
    chain = f"--speculative-num-steps {tokens} --speculative-eagle-topk 1 --speculative-num-draft-tokens {tokens + 1}"
    if draft == OWN:
        return ["--speculative-algorithm NEXTN", chain]
    if draft == TEXT:
        return ["--speculative-algorithm NGRAM", f"--speculative-num-draft-tokens {tokens + 1}"]
    kind = "EAGLE3" if eagle else "STANDALONE"
    return [f"--speculative-algorithm {kind}", f"--speculative-draft-model-path {draft}", chain]
