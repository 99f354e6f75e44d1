"""Logs, proxies and metrics of what runs: which lines, which port, which form."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from apiserver_serving import Served, served

from fairway.kube.objects import Obj
from fairway.kube.timestamps import parse_rfc3339, rfc3339_micro

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"}},
}
SECOND_US = 1_000_000


def pod(name: str, *ports: int, **fields: Any) -> Obj:
    container = {
        "name": "c",
        "image": "nginx:1",
        "ports": [{"containerPort": p, "name": f"p{p}"} for p in ports],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{**container, **fields}]},
    }


def service(name: str, *ports: Obj) -> Obj:
    spec = {"selector": {"app": "web"}, "ports": list(ports)}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data: Path = tmp_path_factory.mktemp("subresources")
    with served(data, paused=True) as api:
        api.until_ready()
        assert api.ask("POST", "/api/v1/nodes", NODE)[0] == 201
        said = ["sh", "-c", "echo one; sleep 30; echo two; sleep 30; echo three; sleep 36000"]
        for made in (pod("web", 80, 90), pod("bare"), pod("says", 80, command=said)):
            assert api.ask("POST", PODS, made)[0] == 201
        for made in (
            service("one", {"port": 8080, "targetPort": 80}),
            service(
                "two", {"name": "a", "port": 1, "targetPort": 80}, {"name": "b", "port": 2, "targetPort": 90}
            ),
        ):
            assert api.ask("POST", SERVICES, made)[0] == 201
        # In steps: metrics are scraped on the way.
        for _ in range(20):
            api.ask("POST", "/fairway/clock", {"advanceUs": 15 * SECOND_US})
        yield api


# Logs


def log(api: Served, **options: Any) -> tuple[int, Any]:
    query = "&".join(f"{k}={quote(str(v))}" for k, v in options.items())
    return api.ask("GET", f"{PODS}/says/log?{query}")


def times(api: Served) -> list[str]:
    return [line.partition(" ")[0] for line in log(api, timestamps="true")[1].splitlines()]


def test_lines_since_a_time_have_that_time_or_a_later_one(home: Served) -> None:
    first, second, third = times(home)
    assert log(home, sinceTime=first) == (200, "one\ntwo\nthree\n")
    assert log(home, sinceTime=second) == (200, "two\nthree\n")
    later = rfc3339_micro(parse_rfc3339(second) + 1)
    assert log(home, sinceTime=later)[1] == "three\n"
    assert log(home, sinceTime=third, tailLines=5) == (200, "three\n")
    assert log(home, sinceTime="yesterday")[0] == 400


def test_the_last_seconds_are_those_before_now(home: Served) -> None:
    now_us = home.call(lambda: home.server.api.store.now_us)
    ago = (now_us - parse_rfc3339(times(home)[1])) / SECOND_US
    at_least = int(ago) + (ago % 1 > 0)
    assert log(home, sinceSeconds=at_least) == (200, "two\nthree\n")
    assert log(home, sinceSeconds=at_least - 1) == (200, "three\n")
    assert log(home, sinceSeconds=1) == (200, "")


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({"tailLines": 0}, ""),
        ({"tailLines": 1}, "three\n"),
        ({"tailLines": 2}, "two\nthree\n"),
        ({"tailLines": 9}, "one\ntwo\nthree\n"),
        ({"limitBytes": 1}, "o"),
        ({"limitBytes": 6}, "one\ntw"),
        ({"limitBytes": 3, "tailLines": 1}, "thr"),
        ({"tailLines": -1}, None),
        ({"tailLines": "x"}, None),
        ({"limitBytes": 0}, None),
        ({"sinceSeconds": 0}, None),
    ],
)
def test_parts_of_a_log(home: Served, options: Obj, want: str | None) -> None:
    code, said = log(home, **options)
    assert (code, said) == (200, want) if want is not None else code == 400


# Proxies


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/api/v1/nodes/n/proxy/healthz", 200, "ok"),
        ("/api/v1/nodes/n:10250/proxy/healthz/", 200, "ok"),
        ("/api/v1/nodes/n/proxy/nothing", 404, "404 page not found\n"),
        ("/api/v1/nodes/n/proxy/metrics/resource", 200, "node_cpu_usage_seconds_total"),
        ("/api/v1/nodes/none/proxy/healthz", 404, 'nodes "none" not found'),
        (f"{PODS}/web/proxy/", 200, "port 80 of pod default/web"),
        (f"{PODS}/web:90/proxy/", 200, "port 90 of pod default/web"),
        (f"{PODS}/http:web:90/proxy/", 200, "port 90 of pod default/web"),
        (f"{PODS}/https:web/proxy/", 200, "port 80 of pod default/web"),
        (f"{PODS}/web:91/proxy/", 503, "91: connect: connection refused"),
        (f"{PODS}/web:x/proxy/", 400, "invalid pod request"),
        (f"{PODS}/bare/proxy/", 503, ":80: connect: connection refused"),
        (f"{SERVICES}/one/proxy/", 200, "port 80 of pod default/web"),
        (f"{SERVICES}/one:8080/proxy/", 200, "port 80 of pod default/web"),
        (f"{SERVICES}/one:80/proxy/", 503, 'no endpoints available for service "one:80"'),
        (f"{SERVICES}/two:a/proxy/", 200, "port 80 of pod default/web"),
        (f"{SERVICES}/two:b/proxy/", 200, "port 90 of pod default/web"),
        (f"{SERVICES}/two:2/proxy/", 200, "port 90 of pod default/web"),
        (f"{SERVICES}/two/proxy/", 503, "no endpoints available"),
        (f"{SERVICES}/none/proxy/", 404, 'services "none" not found'),
    ],
)
def test_who_answers_behind_a_proxy(home: Served, path: str, code: int, said: str) -> None:
    found, answer = home.ask("GET", path)
    assert (found, said in str(answer)) == (code, True), answer


# Names that are made, forms


def test_names_are_made_where_only_a_beginning_is_given(home: Served) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    names = set()
    for _ in range(3):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
        code, made = home.ask("POST", path, body)
        assert code == 201
        names.add(made["metadata"]["name"])
    assert len(names) == 3 and all(n.startswith("made-") and len(n) == 10 for n in names)
    both = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-", "name": "own"}}
    assert home.ask("POST", path, both)[1]["metadata"]["name"] == "own"


METRICS = "/apis/metrics.k8s.io/v1beta1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"


@pytest.mark.parametrize("path", [f"{METRICS}/nodes", f"{METRICS}/namespaces/default/pods"])
def test_samples_come_in_the_form_that_is_asked_for(home: Served, path: str) -> None:
    _, plain = home.ask("GET", path)
    names = [o["metadata"]["name"] for o in plain["items"]]
    assert names == (["n"] if path.endswith("nodes") else ["bare", "says", "web"])
    _, table = home.ask("GET", path, headers={"Accept": TABLE})
    assert table["kind"] == "Table" and [r["cells"][0] for r in table["rows"]] == names
    _, listed = home.ask("GET", path, headers={"Accept": PARTIAL.format("List")})
    assert listed["kind"] == "PartialObjectMetadataList"
    assert [(o["kind"], o["metadata"]["name"], "usage" in o) for o in listed["items"]] == [
        ("PartialObjectMetadata", n, False) for n in names
    ]
    one = f"{path}/{names[0]}"
    assert home.ask("GET", one)[1]["metadata"]["name"] == names[0]
    _, table = home.ask("GET", one, headers={"Accept": TABLE})
    assert [r["cells"][0] for r in table["rows"]] == names[:1]
    _, found = home.ask("GET", one, headers={"Accept": PARTIAL.format("")})
    assert (found["kind"], found["metadata"]["name"]) == ("PartialObjectMetadata", names[0])
    assert home.ask("GET", f"{path}/none")[0] == 404
    assert home.ask("POST", path, {})[0] == 405
