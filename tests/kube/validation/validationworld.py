"""Builders of small objects that are valid until a test spoils them."""

from __future__ import annotations

from typing import Any

from fairway.kube.validation.validating import validate

Obj = dict[str, Any]


def container(**fields: Any) -> Obj:
    return {"name": "c", "image": "cuda:12", **fields}


def asking(**resources: Any) -> Obj:
    """A container with these resources: `asking(limits={...}, requests={...})`."""
    return container(resources=resources)


def pod(*containers: Obj, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team-a"},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def template(*containers: Obj, labels: Obj | None = None, **spec: Any) -> Obj:
    labels = {"app": "web"} if labels is None else labels
    return {"metadata": {"labels": labels}, "spec": {"containers": list(containers) or [container()], **spec}}


def controller(kind: str, **spec: Any) -> Obj:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template(), **spec},
    }


def job(restart: str = "Never", **spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": template(labels={}, restartPolicy=restart), **spec},
    }


def cron_job(schedule: str = "0 3 * * *", **spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": schedule, "jobTemplate": {"spec": job()["spec"]}, **spec},
    }


def node(taints: list[Obj] | None = None, **status: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "spec": {"taints": taints or []},
        "status": status,
    }


def of_kind(kind: str, api_version: str = "v1", name: str = "x", **fields: Any) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def told(obj: Obj) -> list[str]:
    """What the API server would say, in order."""
    return [str(p) for p in validate(obj)]
