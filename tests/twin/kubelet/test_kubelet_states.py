"""A copy of what a kubelet remembers takes everything over: compiled classes have no `__dict__` to copy."""

from __future__ import annotations

import ast

import pytest

from fairway.compiled.loading import PACKAGE
from fairway.twin.kubelet import states

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
