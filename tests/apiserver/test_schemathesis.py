"""schemathesis, from the server's own OpenAPI document: whatever it thinks of, no answer is a 5xx."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from apiserver_serving import Served, served
from hypothesis import HealthCheck, settings

schemathesis = pytest.importorskip("schemathesis")

# Groups whose operations are tried, and how many requests to each operation: seconds, not hours.
DOCUMENTS = ("api/v1", "apis/batch/v1", "apis/rbac.authorization.k8s.io/v1", "apis/kueue.x-k8s.io/v1beta2")
WORDS = ("configmaps", "pods", "jobs", "services", "roles", "clusterqueues", "namespaces")
EXAMPLES = 3


def operations(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the operations of a few resources; those that stream for ever are left out."""
    paths = {
        path: item
        for path, item in document["paths"].items()
        if path.rpartition("/")[2] in WORDS and "watch" not in path
    }
    return {**document, "paths": paths}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_operation_answers_with_a_5xx(document: str, tmp_path: Path) -> None:
    with served(tmp_path, paused=True) as api:
        api.until_ready()
        _, found = api.ask("GET", f"/openapi/v3/{document}")
        schema = schemathesis.openapi.from_dict(operations(found))
        tried = 0
        for result in schema.get_all_operations():
            tried += 1
            _try(api, result.ok())
        assert tried >= 3
        assert api.ask("GET", "/healthz")[0] == 200


def _try(api: Served, operation: Any) -> None:
    from hypothesis import given

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def try_one(case: Any) -> None:
        sent = case.as_transport_kwargs(base_url=api.server.url)
        body = sent.get("json")
        data = None if body is None else json.dumps(body, default=str).encode()
        path = sent["url"].removeprefix(api.server.url)
        params = {k: v for k, v in (sent.get("params") or {}).items() if k not in ("watch", "timeoutSeconds")}
        query = "&".join(f"{_quoted(str(k))}={_quoted(str(v))}" for k, v in params.items())
        code, said = api.ask(sent["method"], path + (f"?{query}" if query else ""), data)
        assert code < 500, (sent["method"], path, body, said)

    try_one()


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
