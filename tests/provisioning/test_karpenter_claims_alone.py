"""A claim by itself: which types could hold one more pod, and who may not come at all."""

from __future__ import annotations

from typing import Any

import pytest
from karpenterworlds import GPU, kind, pod, pool

from fairway.kube.objects import Obj
from fairway.provisioning.karpenter.claims import Claim, Template, template_of
from fairway.provisioning.karpenter.fleet import Fleet
from fairway.provisioning.karpenter.labels import ARCH, HOSTNAME
from fairway.provisioning.karpenter.podfacts import Shape, Shapes

TYPES = [kind("a.two", 2), kind("b.four", 4), kind("c.gpu", 4, gpu=1), kind("d.arm", 8, arch="arm64")]


def claim_of(*daemons: Obj) -> Claim:
    template, _ = template_of(pool(), Fleet(TYPES), daemons, best_effort=False)
    assert isinstance(template, Template)
    return Claim(template, "host-1", template.requirements, template.mask, (1, 1))


def shape(cpu: str = "1", **more: Any) -> Shape:
    return Shapes().of(pod("p", cpu, **more))


def fitting(claim: Claim, wanted: Shape) -> list[str]:
    return [t.name for t in claim.template.fleet.of(claim.fits(wanted))]


@pytest.mark.parametrize(
    ("wanted", "held", "agent", "want"),
    [
        ({"cpu": "2"}, {}, None, ["a.two", "b.four", "c.gpu", "d.arm"]),
        ({"cpu": "2001m"}, {}, None, ["b.four", "c.gpu", "d.arm"]),
        ({"cpu": "1"}, {"cpu": 1000}, None, ["a.two", "b.four", "c.gpu", "d.arm"]),
        ({"cpu": "1"}, {"cpu": 1001}, None, ["b.four", "c.gpu", "d.arm"]),
        ({"cpu": "1", "gpu": 1}, {}, None, ["c.gpu"]),
        ({"cpu": "1"}, {GPU: 1}, None, ["c.gpu"]),
        ({"cpu": "9"}, {}, None, []),
        # DaemonSets take their room where they run, and there alone.
        ({"cpu": "2"}, {}, {}, ["b.four", "c.gpu", "d.arm"]),
        ({"cpu": "4"}, {}, {}, ["d.arm"]),
        ({"cpu": "4"}, {}, {"nodeSelector": {ARCH: "arm64"}}, ["b.four", "c.gpu", "d.arm"]),
        ({"cpu": "8"}, {}, {"nodeSelector": {ARCH: "amd64"}}, ["d.arm"]),
        ({"cpu": "8"}, {}, {"nodeSelector": {ARCH: "arm64"}}, []),
    ],
)
def test_the_types_with_room_for_one_more(
    wanted: dict[str, Any], held: dict[str, int], agent: dict[str, Any] | None, want: list[str]
) -> None:
    claim = claim_of(*(() if agent is None else (pod("agent", "500m", **agent),)))
    claim.requests = held
    assert fitting(claim, shape(**wanted)) == want
    assert claim.requests is held and held.get("cpu", 0) in (0, 1000, 1001)
    for left in (0b1010, 0b0101, 0):
        claim.mask = left
        kept = [t.name for at, t in enumerate(TYPES) if left >> at & 1]
        assert fitting(claim, shape(**wanted)) == [name for name in want if name in kept]


def test_who_may_not_come_for_its_host_or_its_ports() -> None:
    claim = claim_of()
    port: dict[str, Any] = {"container": {"ports": [{"containerPort": 1, "hostPort": 80}]}}
    other: dict[str, Any] = {"container": {"ports": [{"containerPort": 1, "hostPort": 81}]}}
    assert claim.allows_host(shape())
    for host, allowed in (("host-1", True), ("host-2", False)):
        tied = Shapes(respects_preferences=False).of(pod("p", nodeSelector={HOSTNAME: host}))
        assert claim.allows_host(tied) is allowed
    assert claim.allows_ports(shape(**port))
    claim.ports = shape(**port).ports
    assert [claim.allows_ports(shape(**more)) for more in ({}, other, port)] == [True, True, False]
    labels = claim.host_labels(claim.requirements)
    assert (labels.get(HOSTNAME).sorted_values(), HOSTNAME in claim.requirements) == (["host-1"], False)
