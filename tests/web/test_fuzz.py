"""The API under thousands of made-up requests: never an error of the server's own."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error

from rackmath.web.app import create_app
from rackmath.web.security import TOKEN

pytestmark = pytest.mark.long

# A question that takes longer is refused, as one of a minute is before users.
app = create_app(1, longest=5.0)
schema = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"host": "127.0.0.1"})
_HEAVY = "plan|simulate|page|fit|explore"
"""Views whose questions take a process each."""
HEADERS = {"host": "127.0.0.1", TOKEN: app.state.token}


def answer(case: schemathesis.Case, **options: float) -> None:
    response = case.call_and_validate(checks=(not_a_server_error,), headers=HEADERS, **options)
    # What is refused at the door tests nothing behind it.
    assert response.status_code != 403


@schema.exclude(operation_id_regex=_HEAVY).parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_question_breaks_the_server(case: schemathesis.Case) -> None:
    answer(case)


@schema.include(operation_id_regex=_HEAVY).parametrize()
# Drawn ones alone: the many cases that schemathesis adds to them would each take a process.
@settings(max_examples=8, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
def test_no_long_question_breaks_the_server(case: schemathesis.Case) -> None:
    answer(case, timeout=90)
