"""Who may ask the board: its own pages and tools on this machine, and nobody else's pages."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from rackmath.web.app import create_app
from rackmath.web.security import HEADERS, TOKEN

UPLOAD = "/api/uploads/config?name=config.json"
SOLVE = "/api/claims?chapter=1"


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(1, ("board.example",)), base_url="http://127.0.0.1:8765") as client:
        yield client


@pytest.fixture
def token(client: TestClient) -> str:
    return client.app.state.token  # type: ignore[attr-defined]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8765", "", "a b", "[::1"])
def test_a_strange_name_is_refused_everywhere(client: TestClient, host: str) -> None:
    for path in ("/", "/openapi.json", "/static/1/board.js", SOLVE):
        response = client.get(path, headers={"host": host})
        assert response.status_code == 403, path
        assert "does not answer to the name" in response.json()["errors"][0]["message"]
        assert HEADERS.items() <= dict(response.headers).items()


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost:8765", "LOCALHOST", "[::1]:8765", "10.0.0.7:80", "board.example", socket.gethostname()],
)
def test_this_machine_and_the_name_it_was_started_with_are_answered(client: TestClient, host: str) -> None:
    assert client.get(SOLVE, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_sites_neither_write_nor_let_compute(
    client: TestClient, token: str, headers: dict[str, str]
) -> None:
    assert client.post(UPLOAD, content=b"{}", headers={TOKEN: token, **headers}).status_code == 403
    for path in (SOLVE, "/api/estimate", "/still/estimate.svg"):
        assert client.get(path, headers=headers).status_code == 403
    # A link to a page is a link to a page.
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200


def test_a_write_needs_the_token_that_stands_in_the_pages(client: TestClient, token: str) -> None:
    for headers in ({}, {TOKEN: ""}, {TOKEN: "guess"}, {TOKEN: token[:-1]}):
        assert client.post(UPLOAD, content=b"{}", headers=headers).status_code == 403
    own = {TOKEN: token, "origin": "http://127.0.0.1:8765", "sec-fetch-site": "same-origin"}
    assert client.post(UPLOAD, content=b"{}", headers=own).status_code == 200
    assert f'name="rackmath-token" content="{token}"' in client.get("/").text


def test_every_board_has_a_token_of_its_own(token: str) -> None:
    assert len(token) >= 20
    assert create_app(1).state.token != token


def test_an_error_of_the_boards_own_keeps_the_headers_and_says_nothing_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(chapter: int) -> None:
        raise RuntimeError("secret of the machine")

    monkeypatch.setattr("rackmath.web.app.claims_of", fails)
    with TestClient(create_app(1), base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        response = client.get(SOLVE)
    assert response.status_code == 500
    assert HEADERS.items() <= dict(response.headers).items()
    assert "the board failed at this question" in response.json()["errors"][0]["message"]
    assert "secret" not in response.text
