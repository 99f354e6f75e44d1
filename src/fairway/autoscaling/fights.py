"""Which autoscalers work against each other, or against somebody else? Known by what they are set to and what happened.

In: the autoscalers of a cluster, how long their targets' pods took to start, and how often others set the replicas.
Out: a sentence for each fight, naming both sides and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fairway.autoscaling.keda.scaledobjects import COOLDOWN_S
from fairway.autoscaling.vpa.policies import AUTO, IN_PLACE, RECREATE, container_policy, mode
from fairway.kube.objects import Obj
from fairway.kube.timestamps import SECOND_US, format_duration

_DOWN_WINDOW_S: Final = 300

Target = tuple[str, str, str]
"""Kind, namespace, name."""


def fights(
    horizontal: Iterable[Obj],
    vertical: Iterable[Obj],
    scaled: Iterable[Obj],
    startup_us: Mapping[Target, int],
    by_others: Mapping[Target, int],
    untolerated: Mapping[Target, str] | None = None,
) -> list[str]:
    """`startup_us`: the median of a target's pods, from having a node until ready. `untolerated`: the taint that kept
    pods of a target from nodes until the end."""
    of_target: dict[Target, list[Obj]] = {}
    for scaler in horizontal:
        of_target.setdefault(_target(scaler, "scaleTargetRef"), []).append(scaler)
    found = [*_several(of_target), *_on_one_resource(of_target, vertical)]
    found += _too_hasty(of_target, scaled, startup_us)
    found += [
        f"{_text(target)}: {_names(of_target[target])} and somebody else both set its replicas ({times} times); "
        "leave spec.replicas out of what is applied"
        for target, times in sorted(by_others.items())
        if target in of_target
    ]
    for target, taint in sorted((untolerated or {}).items()):
        if target in of_target:
            bears = taint.removeprefix("untolerated taint ")
            found.append(
                f"{_text(target)}: {_names(of_target[target])} asks for replicas that no node takes: their pods do "
                f"not tolerate {bears}, and machines that bear it are opened, or kept, in vain; add the toleration"
            )
    return found


def _several(of_target: Mapping[Target, list[Obj]]) -> Iterator[str]:
    for target, scalers in of_target.items():
        if len(scalers) > 1:
            yield (
                f"{_text(target)}: {_names(scalers)} scale the same target, and so none does; "
                "put all metrics into one"
            )


def _on_one_resource(of_target: Mapping[Target, list[Obj]], vertical: Iterable[Obj]) -> Iterator[str]:
    for autoscaler in vertical:
        if mode(autoscaler) not in (RECREATE, AUTO, IN_PLACE):
            continue
        target = _target(autoscaler, "targetRef")
        for scaler in of_target.get(target, ()):
            both = sorted(_measured(scaler) & _controlled(autoscaler))
            if both:
                yield (
                    f"{_text(target)}: VerticalPodAutoscaler {autoscaler['metadata']['name']} changes the "
                    f"{' and '.join(both)} requests that {_names([scaler])} scales by; "
                    "scale by another metric, or set updateMode Off"
                )


def _measured(scaler: Obj) -> set[str]:
    """Resources whose utilization it goes by."""
    found = set()
    for metric in scaler["spec"].get("metrics") or ():
        source = metric.get("resource") or metric.get("containerResource") or {}
        if (source.get("target") or {}).get("averageUtilization") is not None:
            found.add(str(source["name"]))
    return found


def _controlled(autoscaler: Obj) -> set[str]:
    return set(container_policy(autoscaler, "*").get("controlledResources") or ("cpu", "memory"))


def _too_hasty(
    of_target: Mapping[Target, list[Obj]], scaled: Iterable[Obj], startup_us: Mapping[Target, int]
) -> Iterator[str]:
    """What goes down sooner than a pod comes up goes up and down for ever."""
    for obj in scaled:
        ref = obj["spec"]["scaleTargetRef"]
        target = (ref.get("kind") or "Deployment", obj["metadata"]["namespace"], ref["name"])
        cooldown = obj["spec"].get("cooldownPeriod")
        seconds = COOLDOWN_S if cooldown is None else int(cooldown)
        took_us = startup_us.get(target, 0)
        if not obj["spec"].get("minReplicaCount") and took_us > seconds * SECOND_US:
            yield (
                f"{_text(target)}: ScaledObject {obj['metadata']['name']} cools down after {seconds} s, but a pod "
                f"takes {format_duration(took_us)} to start; raise cooldownPeriod"
            )
    for target, scalers in of_target.items():
        for scaler in scalers:
            down: dict[str, Any] = (scaler["spec"].get("behavior") or {}).get("scaleDown") or {}
            told = down.get("stabilizationWindowSeconds")
            seconds = _DOWN_WINDOW_S if told is None else int(told)
            took_us = startup_us.get(target, 0)
            if took_us > seconds * SECOND_US:
                yield (
                    f"{_text(target)}: {_names([scaler])} goes down after {seconds} s, but a pod takes "
                    f"{format_duration(took_us)} to start; raise scaleDown.stabilizationWindowSeconds"
                )


def _target(obj: Obj, member: str) -> Target:
    ref = (obj.get("spec") or {}).get(member) or {}
    return (ref.get("kind") or "", obj["metadata"]["namespace"], ref.get("name") or "")


def _text(target: Target) -> str:
    return f"{target[0]} {target[1]}/{target[2]}"


def _names(scalers: Iterable[Obj]) -> str:
    return " and ".join(f"HorizontalPodAutoscaler {s['metadata']['name']}" for s in scalers)
