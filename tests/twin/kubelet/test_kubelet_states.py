"""A copy of what a kubelet remembers takes everything over: compiled classes have no `__dict__` to copy."""

from __future__ import annotations

import ast

import pytest

from fairway.compiled.loading import PACKAGE
from fairway.kube.objects import Key
from fairway.twin.kubelet import states
from fairway.twin.kubelet.locality import Managers
from fairway.twin.kubelet.plans import plan_of

FIELDS = {
    "ContainerState": states.CONTAINER_FIELDS,
    "PodState": states.POD_FIELDS,
    "NodeState": states.NODE_FIELDS,
}
SOURCE = ast.parse((PACKAGE / "twin" / "kubelet" / "states.py").read_text(encoding="utf-8"))


def attributes(of: ast.ClassDef) -> set[str]:
    """What the class body or its methods set."""
    names = {n.target.id for n in of.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    names |= {
        t.id for n in of.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)
    }
    for node in ast.walk(of):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return names


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_taken_over(name: str) -> None:
    (found,) = (n for n in SOURCE.body if isinstance(n, ast.ClassDef) and n.name == name)
    assert attributes(found) == set(FIELDS[name])


def test_what_a_copy_changes_its_original_does_not_know() -> None:
    plan = plan_of({"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]})
    pod = states.PodState("u", Key("Pod", "d", "p"), "n", plan, 7)
    node = states.NodeState("n", "v", 3)
    node.used, node.pods, node.unseen = {"cpu": 1}, {"u": None}, {"w": Key("Pod", "d", "q")}
    node.owed, node.images, node.managers = {"u": pod}, {"i": 5}, Managers((), None, None)
    copy = node.copy()
    for name in ("used", "pods", "unseen", "images"):
        there, here = getattr(node, name), getattr(copy, name)
        assert here == there and here is not there, name
    assert copy.managers is not node.managers and list(copy.owed) == ["u"]
    other = copy.owed["u"]
    assert other is not pod and other.containers is not pod.containers
    for mine, its in zip(pod.containers, other.containers, strict=True):
        assert mine is not its
        its.restarts = 4
        assert mine.restarts == 0
    assert (copy.ip, copy.cidr, copy.name, copy.uid) == (node.ip, node.cidr, "n", "v")
    assert (other.start_us, other.last_start_us, other.is_initialized) == (7, 7, True)


def test_addresses_go_round_past_those_that_are_taken() -> None:
    node = states.NodeState("n", "u", (5 << 8) + 9)
    assert (node.ip, node.ips, node.cidr) == ("172.16.5.9", [{"ip": "172.16.5.9"}], "10.5.9.")
    assert states.NodeState("n", "u", (17 << 16) + 1).ip == "172.17.0.1"
    assert [node.take_ip(set()) for _ in range(2)] == ["10.5.9.2", "10.5.9.3"]
    assert node.take_ip({"10.5.9.4", "10.5.9.5"}) == "10.5.9.6"
    found = [node.take_ip(set()) for _ in range(250)]
    assert found[-3:] == ["10.5.9.254", "10.5.9.1", "10.5.9.2"]
    everything = {f"10.5.9.{i}" for i in range(1, 255)}
    assert node.take_ip(everything) in everything, "more than there are share"
    assert node.take_ip(everything - {"10.5.9.2"}) == "10.5.9.2"
