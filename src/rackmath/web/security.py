"""Who may ask, and headers of every answer: nothing but this server is spoken to, nothing but its own files runs."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from hmac import compare_digest
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Styles may be inline because Plotly sets them so; scripts may not."""

HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class SecureHeaders:
    """Middleware that adds :data:`HEADERS` to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on and add headers to what comes back."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in names),
                ]
            await send(message)

        await self.app(scope, receive, with_headers if scope["type"] == "http" else send)


TOKEN = "x-rackmath-token"
"""Header that a write must carry; pages have its value, which only their own scripts can read."""
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CROSS_ORIGIN = frozenset({"cross-site", "same-site"})
_COMPUTED = ("/api/", "/still/")
"""Addresses whose answers take work: no page of another site may ask for them."""


class SameOrigin:
    """Middleware that answers this board's own pages and tools on this machine, and no page of another site.

    A name in ``Host`` that is neither this machine's nor an address may be a name that somebody turned to this machine
    to read what it answers (DNS rebinding). Writes need the token, so that a form of another site cannot send one.

    Parameters
    ----------
    hosts : iterable of str
        Names that the board answers to besides addresses, localhost and this machine's name.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], token: str) -> None:
        self.app = app
        self.names = frozenset({"localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)})
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with the reason."""
        reason = self._refusal(scope) if scope["type"] == "http" else None
        if reason is None:
            await self.app(scope, receive, send)
            return
        await JSONResponse({"errors": [{"field": "", "message": reason}]}, status_code=403)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        """Why a request is not answered, or None."""
        headers = Headers(scope=scope)
        host = _name(headers.get("host", ""))
        if not self._is_own(host):
            return (
                f"this board does not answer to the name {host[:80]!r}: ask it by its address, or start it with --host"
            )
        is_computation = scope["path"].startswith(_COMPUTED)
        write = scope["method"] not in _SAFE_METHODS
        origin = headers.get("origin")
        cross_origin = origin is not None and urlsplit(origin).netloc != headers.get("host", "")
        if (is_computation or write) and (cross_origin or headers.get("sec-fetch-site") in _CROSS_ORIGIN):
            return "this board answers its own pages only, and this request comes from a page of another site"
        if write and not compare_digest(headers.get(TOKEN, "").encode(), self.token.encode()):
            return f"a file is sent with the header {TOKEN}, whose value stands in the board's pages"
        return None

    def _is_own(self, host: str) -> bool:
        if host in self.names:
            return True
        try:
            ip_address(host)
        except ValueError:
            return False
        return True


def _name(host: str) -> str:
    """A Host header without port and brackets, in lower case."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
