"""Draw the README's picture from real output, docs/estimate.svg, those of the command pages, and those of the book.

python tools/picture.py
"""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from rich.console import Console

from rackmath.cli import render
from rackmath.cli.app import main as rackmath
from rackmath.figures.write import write_figure
from rackmath.lecture.drawings import DRAWINGS

OUT = Path(__file__).parent.parent / "docs/estimate.svg"
ATTENTION = "llama-3.1-70b,gemma-3-27b,deepseek-v3,deepseek-v3.2,qwen3-next-80b-a3b"
CHARTS = {
    "rackmath plan deepseek-v3 --on h200-sxm --gpus 32 --input 4000 --output 1000 --ttft 2 --tpot 0.05": "frontier.svg",
    "rackmath lecture racks --sizes 1 --sparsity 1": "racks.svg",
    "rackmath lecture experts deepseek-v3 --on gb200-nvl72": "experts.svg",
    f"rackmath lecture context {ATTENTION} --on gb200-nvl72 --gpus 8": "context.svg",
    "rackmath prices cost llama-3.1-70b --on h100-sxm --gpus 8 --input 4000 --sold-as llama-3.3-70b-instruct "
    "--provider novita --date 2026-11-21": "prices-cost.svg",
    "rackmath prices page anthropic --date 2026-11-21": "prices-page.svg",
    "rackmath prices trend": "prices-trend.svg",
    "rackmath train budget --loss 2.0 --inference-tokens 10T": "train-budget.svg",
    "rackmath train pipeline --schedule zb-h1 --stages 8 --microbatches 24 --forward 18.5 --backward-input 18.1 "
    "--backward-weight 9.3 --send 0.6": "zb-h1.svg",
}
"""Commands whose pictures the documents show, and their files."""
COMMAND = "rackmath estimate deepseek-v3 --on gb200-nvl72 --batch 2048 --context 8192"


def main() -> None:
    """Record one command and write it as SVG."""
    recorder = Console(record=True, width=112, file=io.StringIO(), highlight=False)
    recorder.print(f"$ {COMMAND}", style="bold green")
    render.console = lambda: recorder
    with contextlib.suppress(SystemExit):
        rackmath(COMMAND.split()[1:])
    svg = recorder.export_svg(title="rackmath")
    # No font from elsewhere: a picture must not call out.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    OUT.write_text(svg, encoding="utf-8")
    for command, name in CHARTS.items():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            rackmath([*command.split()[1:], "--json", "--plot", str(OUT.with_name(name))])
    for name, draw in DRAWINGS.items():
        write_figure(draw(), OUT.with_name("book") / f"{name}.svg")


if __name__ == "__main__":
    main()
