"""Declarations that several requests share: what the field is called by, how it is read, what help says."""

from __future__ import annotations

from rackmath.api import kinds
from rackmath.api.fields import Option
from rackmath.io.constants_file import FAMILIES

MODEL = Option(
    help="Catalogue name, Hugging Face id, path of a config.json, or folder that holds one.",
    kind=kinds.SUBJECT,
    metavar="MODEL",
    argument=True,
)
SYSTEM = Option(help="Catalogue name, or path of a TOML file.", kind=kinds.SUBJECT, metavar="SYSTEM", names=("--on",))
GPUS = Option(help="Accelerators together.", kind=kinds.whole(1, 1_000_000))
LAYOUT = Option(
    help="Such as tp8,ep8,pp1,dp1, or tp1,ffn16 for experts apart (AFD); by default the fastest that fits.",
    kind=kinds.LAYOUT,
    flags={"vllm": "--tensor-parallel-size", "sglang": "--tp-size"},
)
WEIGHTS = Option(
    help="Format of the weights: bf16, fp8, int4, nvfp4, q4_k_m, ... (default: the config's).",
    flags={"vllm": "--quantization", "sglang": "--quantization"},
)
CACHE = Option(
    help="Format of the cache: bf16, fp8, nvfp4, or llama.cpp's q8_0 (default: auto, the config's).",
    names=("--kv", "--kv-cache-dtype"),
    flags={"vllm": "--kv-cache-dtype", "sglang": "--kv-cache-dtype"},
)
USD_PER_GPU_HOUR = Option(help="Price of one accelerator, if not the catalogue's.", kind=kinds.NUMBER)
GRID = Option(help="CO2 of the grid in grams per kWh, as 400g: adds emissions to energy.", kind=kinds.GRAMS)
ENGINE = Option(help="Family of the engine.", kind=kinds.choice(*FAMILIES))
YEAR = Option(help="When the engine's version is from.", kind=kinds.NUMBER)
NO_EVIDENCE = Option(
    help="Do not correct the answer by measurements near it.",
    kind=kinds.FLAG,
)
IDEAL = Option(help="The pure bound, without an engine's losses.", kind=kinds.FLAG)
CACHED_TOKENS = Option(
    help="Prefill: tokens of the prompt that are cached already.",
    kind=kinds.NUMBER,
    names=("--cached-tokens", "--cached"),
)
DRAFT_TOKENS = Option(
    help="Tokens speculated and verified with each step.",
    kind=kinds.NUMBER,
    names=("--draft-tokens", "--num-speculative-tokens", "--drafted"),
    flags={"vllm": "--speculative-config", "sglang": "--speculative-num-steps"},
)
ACCEPTANCE = Option(
    help="Chance that a draft is accepted, for all or by position as 0.8,0.6 [as measured].", kind=kinds.NUMBERS
)
DRAFT_MODEL = Option(
    help="Draft model, or eagle3 for a typical EAGLE-3 head (default: the model's own MTP layers).",
    kind=kinds.SUBJECT,
    metavar="MODEL",
    flags={"vllm": "--speculative-config", "sglang": "--speculative-draft-model-path"},
)
EAGER = Option(
    help="Run without CUDA graphs: the host launches every kernel of a step.",
    kind=kinds.FLAG,
    names=("--enforce-eager", "--disable-cuda-graph"),
    flags={"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"},
)
INPUT = Option(help="Tokens of a prompt.", kind=kinds.NUMBER, names=("--input", "--isl"))
OUTPUT = Option(help="Tokens of an answer.", kind=kinds.NUMBER, names=("--output", "--osl"))
RATE = Option(
    help="Requests per second to serve; by default as many as possible.",
    kind=kinds.REQUEST_RATE,
    names=("--rate", "--request-rate"),
)
REQUESTS = Option(
    help="Requests that are generated.", kind=kinds.whole(1, 10**12), names=("--requests", "--num-prompts")
)
CACHED_PREFIX = Option(help="Part of a prompt whose cache is there already, 0 to 1.", kind=kinds.NUMBER)
THINK_TIME = Option(
    help="Mean pause of a user between turns, in s.", kind=kinds.SECONDS, names=("--think-time", "--think")
)
TTFT = Option(help="Limit on the mean time to first token, in seconds.", kind=kinds.SECONDS)
TPOT = Option(help="Limit on the mean time per output token, in seconds.", kind=kinds.TIME_PER_TOKEN)
MAX_NUM_SEQS = Option(
    help="Sequences in a step of a replica at most.",
    kind=kinds.whole(1, 65_536),
    names=("--max-num-seqs", "--seats"),
    flags={"vllm": "--max-num-seqs", "sglang": "--max-running-requests"},
)
MEMORY_PART = Option(
    help="Part of the memory that the engine may take (default: the engine's own).",
    kind=kinds.NUMBER,
    names=("--gpu-memory-utilization", "--mem-fraction-static", "--free-gpu-memory-fraction"),
    flags={"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"},
)
MAX_NUM_BATCHED_TOKENS = Option(
    help="Tokens of one step.",
    kind=kinds.whole(1, 10_000_000),
    names=("--max-num-batched-tokens", "--budget"),
    flags={"vllm": "--max-num-batched-tokens", "sglang": "--chunked-prefill-size"},
)
BLOCK_SIZE = Option(
    help="Tokens of a block of the cache.",
    kind=kinds.whole(),
    names=("--block-size", "--block"),
    flags={"vllm": "--block-size", "sglang": "--page-size"},
)
