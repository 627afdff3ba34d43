"""A worker whose routed experts have accelerators of their own, as the two kinds of servers that start it.

vLLM runs it with the plugin of vllm-project/afd-plugin (commit 2e4378f, for vLLM 0.26): both kinds are told of each
other with ``--additional-config``, and two micro-batches take turns with ``--enable-dbo``.
"""

from __future__ import annotations

from dataclasses import dataclass

from rackmath.serving.quoting import quoted

ATTENTION, FFN = "attention", "ffn"
"""Kinds of servers: of attention, norms, router and shared experts, which users reach; of routed experts."""
PLUGIN = "vLLM needs vllm-project/afd-plugin, written for vLLM 0.26 and for models like DeepSeek's and GLM's"
"""What has to be installed."""
NOT_WRITTEN = "# {engine} has no servers that hold routed experts only: plan without --afd"
"""What other engines' scripts say."""
RUNNER = "VLLM_USE_V2_MODEL_RUNNER=0"
"""Variable of the environment without which the plugin does not start."""
_PORT = 6239
_GRAPHS = "FULL_DECODE_ONLY"
"""Steps that the plugin replays as graphs."""
_DECODE_TOKENS, _PROMPT_TOKENS = 2, 12
"""Tokens of a step from which it is cut into micro-batches, as in the plugin's recipes. [tokens]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApartServer:
    """Which part of a worker a server is."""

    kind: str
    """ATTENTION or FFN."""
    attention_ranks: int
    ffn_ranks: int
    micro_batches: int
    """Micro-batches that take turns."""
    pair: int
    """Number of the worker among those of a deployment."""

    @property
    def port(self) -> int:
        """Port where the ranks of both kinds meet; those above it, one for each rank of experts, are taken too."""
        return _PORT + self.pair * (self.ffn_ranks + 1)

    def flags(self, host: str, eager: bool) -> list[str]:
        """Flags of vLLM; ``host`` is where the first rank of experts runs, ``eager`` steps replay no graphs."""
        meeting = {
            "role": self.kind,
            "connector": "P2pNcclAFDConnector",
            "host": host,
            "port": self.port,
            "num_attention_ranks": self.attention_ranks,
            "num_ffn_ranks": self.ffn_ranks,
            "compute_gate_on_attention": True,
        }
        flags = [f"--additional-config {quoted({'afd': meeting})}"]
        if self.micro_batches > 1:
            flags.append(
                f"--enable-dbo --dbo-decode-token-threshold {_DECODE_TOKENS}"
                f" --dbo-prefill-token-threshold {_PROMPT_TOKENS}"
            )
        return flags if eager else [*flags, f"--compilation-config {quoted({'cudagraph_mode': _GRAPHS})}"]
