"""What might let its pods in? Roomier quotas and limits, what a quota wants said, policies that hold no longer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fairway.answers.explanation import Link
from fairway.answers.naming import named
from fairway.answers.proposal import Proposal
from fairway.answers.steps import Delete, Patch
from fairway.answers.templatepaths import at_path, escaped, pointer, templates_of
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, key_of, labels_of, name_of, namespace_of, spec_of
from fairway.kube.resources import format_amount, parse_resources

_BINDING = "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io"
_LEVEL = "pod-security.kubernetes.io/enforce"
# What a container is given that has to say something and says nothing.
_LEAST = {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"}


def doors_opened(store: Store, job: Obj, blocker: Link) -> Iterator[Proposal]:
    """Of the refusal that is told in `blocker`."""
    yield from _said_to_quota(job, blocker.message)
    yield from limits_raised(job, blocker.message)
    yield from _roomier_quotas(store, job, blocker)
    yield from lifted_doors(store, job, blocker.message)


def _said_to_quota(job: Obj, said: str) -> Iterator[Proposal]:
    """Requests and limits that a ResourceQuota wants every container to name."""
    wanted = re.findall(
        r"(limits|requests)\.([\w./-]+) for: ([\w,-]+)", said if "must specify" in said else ""
    )
    operations: list[dict[str, Any]] = []
    for path in templates_of(job):
        for i, container in enumerate(spec_of(at_path(job, path)).get("containers") or ()):
            base = pointer((*path, "spec", "containers", i, "resources"))
            resources = container.get("resources") or {}
            if "resources" not in container:
                operations.append({"op": "add", "path": base, "value": {}})
            opened = set(resources)
            for part, name, containers in wanted:
                if container.get("name") not in containers.split(","):
                    continue
                if part not in opened:
                    operations.append({"op": "add", "path": f"{base}/{part}", "value": {}})
                    opened.add(part)
                other = resources.get("requests" if part == "limits" else "limits") or {}
                value = other.get(name, _LEAST.get(name, "1"))
                operations.append({"op": "add", "path": f"{base}/{part}/{escaped(name)}", "value": value})
    if operations and wanted:
        names = ", ".join(dict.fromkeys(f"{part}.{name}" for part, name, _ in wanted))
        yield Proposal(f"{names} said in every container", (Patch(key_of(job), tuple(operations)),), "said")


def limits_raised(job: Obj, said: str) -> Iterator[Proposal]:
    """Containers limited to what they request, where a LimitRange would give them less."""
    if "must be less than or equal to" not in said and "requests must not exceed its limits" not in said:
        return
    operations: list[dict[str, Any]] = []
    for path in templates_of(job):
        for i, container in enumerate(spec_of(at_path(job, path)).get("containers") or ()):
            resources = container.get("resources") or {}
            base = pointer((*path, "spec", "containers", i, "resources"))
            requests, limits = (parse_resources(resources.get(part) or {}) for part in ("requests", "limits"))
            low = [r for r, v in requests.items() if limits.get(r, 0) < v]
            if low and "limits" not in resources:
                operations.append({"op": "add", "path": f"{base}/limits", "value": {}})
            for r in low:
                value = resources["requests"][r]
                operations.append({"op": "add", "path": f"{base}/limits/{escaped(r)}", "value": value})
    if operations:
        yield Proposal("limits as high as the requests", (Patch(key_of(job), tuple(operations)),), "limits")


def _roomier_quotas(store: Store, job: Obj, blocker: Link) -> Iterator[Proposal]:
    """ResourceQuotas of its namespace that the refusal names, twice as large."""
    for quota in store.objects("ResourceQuota", namespace_of(job)):
        hard = spec_of(quota).get("hard") or {}
        if name_of(quota) not in blocker.message or "exceeded quota" not in blocker.message:
            continue
        operations = []
        for name in hard:
            if name in blocker.message:
                resource = name.removeprefix("requests.").removeprefix("limits.")
                amount = parse_resources({resource: hard[name]})[resource]
                value = format_amount(resource, 2 * amount or 1)
                operations.append({"op": "replace", "path": f"/spec/hard/{escaped(name)}", "value": value})
        if operations:
            yield Proposal(f"{named(quota)} doubled", (Patch(key_of(quota), tuple(operations)),), "quota")


def lifted_doors(store: Store, job: Obj, said: str) -> Iterator[Proposal]:
    """LimitRanges, levels of Pod Security and policies that the refusal speaks of."""
    home = namespace_of(job)
    if " usage per " in said or "LimitRange" in said:
        for limits in store.objects("LimitRange", home):
            yield Proposal(f"{named(limits)} deleted", (Delete(key_of(limits)),), "limits")
    space = store.get(Key("Namespace", "", home))
    if "violates PodSecurity" in said and space is not None and _LEVEL in labels_of(space):
        patch = Patch(key_of(space), ({"op": "remove", "path": f"/metadata/labels/{escaped(_LEVEL)}"},))
        yield Proposal(f"no {_LEVEL}={labels_of(space)[_LEVEL]} on Namespace {home}", (patch,), "level")
    for binding in store.objects(_BINDING):
        if f"with binding '{name_of(binding)}'" in said:
            yield Proposal(f"{named(binding)} deleted", (Delete(key_of(binding)),), "policy")
