"""The application: pages, their answers, files that viewers send."""

from __future__ import annotations

import gzip
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from importlib.resources import files
from secrets import token_urlsafe
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from rackmath.errors import InputError, RackmathError
from rackmath.version import __version__
from rackmath.web import equations, stills, uploads
from rackmath.web.book import OLD
from rackmath.web.pages import pages, views
from rackmath.web.quiz import add_quiz, picture_of
from rackmath.web.rendering import claims_of, fields_of, render_page, said
from rackmath.web.script import page_script
from rackmath.web.security import HEADERS, SameOrigin, SecureHeaders
from rackmath.web.shown import View, as_json
from rackmath.web.workers import TooBusy, TooLong, ViewerLeft, Workers

_STATIC: Mapping[str, str] = {
    "quiz.js": "text/javascript",
    "dom.js": "text/javascript",
    "board.css": "text/css",
}
_FOREVER = "public, max-age=31536000, immutable"
_REFUSED: dict[int | str, dict[str, Any]] = {
    403: {"description": "The request comes from a page of another site, or sends a file without the token."},
    422: {"description": "A field cannot be meant: its name and the way out."},
    429: {"description": "Too many long questions wait."},
    408: {"description": "The question took too long."},
}


def create_app(workers: int | None = None, hosts: Sequence[str] = (), longest: float = 60.0) -> FastAPI:
    """Build the application.

    Parameters
    ----------
    workers : int, optional
        Processes for heavy questions; by default half of the cores.
    hosts : sequence of str
        Names that it answers to besides addresses, localhost and this machine's name.
    longest : float
        Time that one heavy question may take. [s]

    Notes: ``app.state.token`` is the token that writes need.
    """
    token = token_urlsafe(16)
    pool = Workers(workers or max((os.cpu_count() or 2) // 2, 1), longest=longest)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        pool.stop()

    app = FastAPI(
        title="rackmath board",
        version=__version__,
        description="Every answer of the pages as JSON. Fields are those of the command line.",
        lifespan=life,
        docs_url=None,
        redoc_url=None,
    )
    app.state.token = token
    app.add_middleware(SameOrigin, hosts=hosts, token=token)
    app.add_middleware(SecureHeaders)
    for view in views().values():
        _add(app, view, pool)
    _add_others(app)
    add_quiz(app, _REFUSED)
    _add_pages(app)
    _add_errors(app)
    return app


def _add(app: FastAPI, view: View, pool: Workers) -> None:
    """The address that answers a view."""

    async def found(request: Request, inputs: Any) -> dict[str, Any]:
        if view.heavy:
            values = inputs.model_dump()
            files_sent = uploads.shared([v for v in values.values() if isinstance(v, str)])
            return await pool.answer(view.name, values, files_sent, request.is_disconnected)
        return await run_in_threadpool(lambda: as_json(view.answer(inputs)))

    async def answer(request: Request, inputs: Any) -> JSONResponse:
        return JSONResponse(await found(request, inputs))

    # FastAPI reads the type from here: every view has its own.
    answer.__annotations__ = {"request": Request, "inputs": Annotated[view.inputs, Query()], "return": JSONResponse}
    app.get(
        f"/api/{view.name}", summary=view.title, description=view.about, operation_id=view.name, responses=_REFUSED
    )(answer)

    async def still(request: Request) -> Response:
        inputs = {key: value for key, value in fields_of(view, request.query_params).items() if value != ""}
        content = await found(request, view.inputs(**inputs))
        return Response(await run_in_threadpool(stills.svg, content["figures"]), media_type="image/svg+xml")

    app.get(f"/still/{view.name}.svg", include_in_schema=False)(still)


def _add_others(app: FastAPI) -> None:
    @app.get("/api/solve", summary="Solve an equation", operation_id="solve", responses=_REFUSED)
    def solve(
        equation: Annotated[str, Query(max_length=60)],
        symbol: Annotated[str, Query(max_length=40)],
        numbers: Annotated[str, Query(alias="given", max_length=4000, description="k=v;k=v in any unit")] = "",
    ) -> dict[str, Any]:
        pairs = dict(part.split("=", 1) for part in numbers.split(";") if "=" in part)
        return equations.solved(equation, symbol, pairs)

    @app.get("/api/claims", summary="Claims of a chapter", operation_id="claims")
    def claims(chapter: Annotated[int, Query(ge=1, le=6)]) -> list[dict[str, Any]]:
        return claims_of(chapter)

    @app.post("/api/uploads/{kind}", summary="Send a file", operation_id="upload", responses=_REFUSED)
    async def upload(
        request: Request, kind: Literal["config", "trace"], name: Annotated[str, Query(max_length=200)]
    ) -> dict[str, str]:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > uploads.LARGEST[kind]:
                raise InputError("file", name, f"send at most {uploads.LARGEST[kind]:,} bytes")
        return {"name": await run_in_threadpool(uploads.keep, kind, name, bytes(body))}


def _add_pages(app: FastAPI) -> None:
    def page(request: Request) -> Response:
        return HTMLResponse(render_page(request.url.path, dict(request.query_params), request.app.state.token))

    for path in ("/", *pages()):
        app.get(path, include_in_schema=False, response_class=HTMLResponse)(page)

    @app.get("/lecture/{chapter}", include_in_schema=False)
    def moved(request: Request, chapter: int) -> Response:
        if chapter not in OLD:
            raise HTTPException(404)
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/book/{OLD[chapter]}{query}", status_code=308)

    @app.get("/figures/{name}.svg", include_in_schema=False)
    def figure(name: str) -> Response:
        # Drawn by code, which may change while its version does not.
        return Response(_figure(name), media_type="image/svg+xml", headers={"cache-control": "no-cache"})

    @app.get("/static/{edition}/{name}", include_in_schema=False)
    def static(request: Request, edition: str, name: str) -> Response:
        if name == "plotly.min.js":
            body, kind = _plotly(), "text/javascript"
            return Response(body, media_type=kind, headers={"cache-control": _FOREVER, "content-encoding": "gzip"})
        if name == "board.js":
            return Response(page_script(), media_type="text/javascript", headers={"cache-control": _FOREVER})
        if name not in _STATIC:
            raise HTTPException(404)
        body = files("rackmath.web").joinpath("static", name).read_bytes()
        return Response(body, media_type=_STATIC[name], headers={"cache-control": _FOREVER})

    @app.get("/favicon.ico", include_in_schema=False)
    def icon() -> Response:
        return Response(status_code=204)


def warm() -> None:
    """Prepare what the first viewers would wait for: the script, and every page once."""
    _plotly()
    for path in ("/", *pages()):
        render_page(path, {}, token="")


@lru_cache(maxsize=32)
def _figure(name: str) -> str:
    """A figure of the book, drawn once."""
    return picture_of(name)


@lru_cache(maxsize=1)
def _plotly() -> bytes:
    """Plotly's script out of its own package, compressed once."""
    script = files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    # Chromium compiles all of it beside the page, instead of each function when it is called first
    # (https://v8.dev/blog/explicit-compile-hints); to others it is a comment.
    return gzip.compress(b"//# allFunctionsCalledOnLoad\n" + script, 6)


def _add_errors(app: FastAPI) -> None:
    def refused(status: int, errors: list[dict[str, str]]) -> JSONResponse:
        return JSONResponse({"errors": errors}, status_code=status)

    @app.exception_handler(RackmathError)
    def wrong(request: Request, error: RackmathError) -> JSONResponse:
        status = 429 if isinstance(error, TooBusy) else 408 if isinstance(error, TooLong) else 422
        field = error.field.lstrip("-").replace("-", "_") if isinstance(error, InputError) else ""
        # An argument of a command is named in capitals, a symbol of one letter may be one.
        return refused(status, [{"field": field if len(field) == 1 else field.lower(), "message": str(error)}])

    def invalid(request: Request, error: Any) -> JSONResponse:
        return refused(422, said(error))

    # The one of an address that FastAPI checks, the other of one that we do.
    app.exception_handler(RequestValidationError)(invalid)
    app.exception_handler(ValidationError)(invalid)

    @app.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> JSONResponse:
        # This one is sent outside of all middleware, so it carries the headers itself; the traceback goes to the log.
        body = {"errors": [{"field": "", "message": "the board failed at this question; its log has the reason"}]}
        return JSONResponse(body, status_code=500, headers=HEADERS)

    @app.exception_handler(ViewerLeft)
    def gone(request: Request, error: ViewerLeft) -> PlainTextResponse:
        return PlainTextResponse("", status_code=408)
