"""``agent``: what a session of an agent costs, by list price, by first principles, or from a log."""

from __future__ import annotations

import click

from rackmath.api.agent import AgentRequest, run_agent
from rackmath.cli import render
from rackmath.cli.agent_text import show_log, show_session
from rackmath.cli.options import request_options
from rackmath.errors import InputError
from rackmath.figures.write import check_picture, write_figure


@click.command(epilog="Example: rackmath prices agent claude-opus-5-5 --turns 60 --think-time 90 --date 2026-11-21")
@request_options(AgentRequest)
@click.option("--plot", metavar="FILE", help="Draw the cost of a session by call: FILE.html, FILE.png or FILE.svg.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def agent(request: AgentRequest, plot: str | None, as_json: bool) -> None:
    """Cost of an agent's session and day; which lever saves most; break-even with hardware of your own.

    MODEL is a name that genai-prices knows. With --log, the usage records of a log are priced by their own models.
    """
    picture = check_picture(plot)
    if picture is not None and request.log is not None:
        raise InputError("--plot", plot, "draws a session; a log has none")
    result = run_agent(request)
    if picture is not None:
        write_figure(result.picture(), picture)
    if as_json:
        render.show_json(result.facts)
        return
    if request.log is not None:
        show_log(result.facts)
        return
    show_session(result.facts)
