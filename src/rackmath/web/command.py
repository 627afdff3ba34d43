"""``board``: serve the pages."""

from __future__ import annotations

import threading

import click

from rackmath.cli.quantities import WholeNumber
from rackmath.errors import InputError

_PATIENCE = 2
"""For answers under way when the board is stopped. [s]"""


@click.command(epilog="Example: rackmath board --port 8765")
@click.option("--port", type=WholeNumber(0, 65_535), default=8765, show_default=True, help="0 takes a free one.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at; others than this machine's own are yours to guard.",
)
@click.option(
    "--workers", type=WholeNumber(1, 64), help="Processes for plans and simulations (default: half of the cores)."
)
def board(port: int, host: str, workers: int | None) -> None:
    """Serve the lecture and the tools as pages that answer while you drag.

    Nothing is sent anywhere else: pages, scripts and pictures come from this process. Stop it with Ctrl-C.
    """
    try:
        import uvicorn

        from rackmath.web.app import create_app, warm
    except ImportError as error:
        raise InputError("board", error.name, "needs its extra: pip install 'rackmath[web]'") from error
    from rackmath.web.serving import listening

    with listening(host, port) as socket:
        click.echo(f"rackmath board: http://{host}:{socket.getsockname()[1]}/  (Ctrl-C stops it)")
        server = uvicorn.Server(
            uvicorn.Config(create_app(workers, (host,)), log_level="warning", timeout_graceful_shutdown=_PATIENCE)
        )
        threading.Thread(target=warm, daemon=True).start()
        server.run(sockets=[socket])
