"""The API under thousands of made-up requests: never an error of the server's own."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from rackmath.web.app import create_app

schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(1))


@schema.exclude(operation_id_regex="plan|simulate|page").parametrize()
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_question_breaks_the_server(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=(not_a_server_error,))


@schema.include(operation_id_regex="plan|simulate|page").parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_long_question_breaks_the_server(case: schemathesis.Case) -> None:
    # The server itself gives up after a minute.
    case.call_and_validate(checks=(not_a_server_error,), timeout=90)
