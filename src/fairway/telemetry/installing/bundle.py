"""The set to install, part by part, as Kubernetes objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from fairway.kube.objects import Obj
from fairway.telemetry.dcgm.counters import spellings

_HERE: Final = Path(__file__).parent
NAMESPACE: Final = "monitoring"
# Two old names of one field cannot come out of one scrape; the second one is recorded.
_RECORDED: Final = "fairway-dcgm-names"
_OLD: Final = "nvidia-dcgm-exporter-1x"


def parts() -> tuple[str, ...]:
    return tuple(_PARTS)


def objects(chosen: Sequence[str] = ()) -> Iterator[Obj]:
    """Of the chosen parts, or of all. Raises: KeyError for what is no part."""
    for part in chosen or _PARTS:
        yield from _PARTS[part]()


def _file(name: str) -> Iterator[Obj]:
    yield from yaml.safe_load_all((_HERE / name).read_text())


def _monitors() -> Iterator[Obj]:
    yield from _file("monitors.yaml")
    yield _old_names()


def _old_names() -> Obj:
    """Scrapes dcgm-exporter once more, and keeps what 1.x had under its names."""
    fields = _first_names()
    known = "|".join(fields)
    renamed: list[dict[str, Any]] = [
        {"sourceLabels": ["__name__"], "regex": known, "action": "keep"},
        *(
            {"sourceLabels": ["__name__"], "regex": field, "targetLabel": "__name__", "replacement": name}
            for field, name in fields.items()
        ),
    ]
    endpoint = {
        "port": "gpu-metrics",
        "interval": "30s",
        "honorLabels": True,
        "relabelings": [
            {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"},
            {"regex": "pod|container|namespace", "action": "labeldrop"},
            {"targetLabel": "job", "replacement": _OLD},
        ],
        "metricRelabelings": renamed,
    }
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "ServiceMonitor",
        "metadata": {"name": _OLD, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": "nvidia-dcgm-exporter"}}, "endpoints": [endpoint]},
    }


def _first_names() -> dict[str, str]:
    """A field's first old name."""
    found: dict[str, str] = {}
    for name, field in spellings().items():
        found.setdefault(field, name)
    return found


def _rules() -> Iterator[Obj]:
    for file in sorted((_HERE / "rules").glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text())
    first = _first_names()
    recorded = [
        {"record": name, "expr": field} for name, field in spellings().items() if first[field] != name
    ]
    yield {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": _RECORDED, "namespace": NAMESPACE},
        "spec": {"groups": [{"name": _RECORDED, "interval": "30s", "rules": recorded}]},
    }


def _dashboards() -> Iterator[Obj]:
    """A ConfigMap each, with the label by which Grafana's sidecar finds them."""
    for name, text in dashboards().items():
        meta = {"name": name, "namespace": NAMESPACE, "labels": {"grafana_dashboard": "1"}}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {f"{name}.json": text}}


def dashboards() -> dict[str, str]:
    """JSON by name."""
    files = sorted((_HERE / "dashboards").glob("*.json"))
    return {file.stem: json.dumps(json.loads(file.read_text())) for file in files}


_PARTS: Final[dict[str, Callable[[], Iterator[Obj]]]] = {
    "exporters": lambda: _file("exporters.yaml"),
    "monitors": _monitors,
    "rules": _rules,
    "dashboards": _dashboards,
}
