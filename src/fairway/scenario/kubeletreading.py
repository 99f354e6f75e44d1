"""What a fleet says of its machines and kubelets: `board` and `kubelet`, checked as kubelets would at their start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fairway.catalog.boards import BOARD, boards
from fairway.devices.numa.machines import KIND, KUBELET, checked, machine_of
from fairway.devices.numa.options import OptionError
from fairway.kube.located import Field, did_you_mean
from fairway.kube.objects import Obj
from fairway.kube.yamltext import read_documents

_BYTES_MOST = 64 * 1024


def with_kubelet(nodes: list[Obj], board: Field, kubelet: Field) -> list[Obj]:
    """The nodes with both written on them."""
    notes: dict[str, str] = {}
    name = board.text()
    if name and name not in boards():
        board.reject(did_you_mean(name, tuple(boards()), "expected a board:"))
        return nodes
    if name:
        notes[BOARD] = name
    said = _configuration(kubelet) if kubelet.is_given else None
    if said is not None:
        notes[KUBELET] = json.dumps(said, sort_keys=True)
    made = [_noted(node, notes) for node in nodes]
    try:
        if said is not None:
            machine_of(made[0], checked(said))
    except OptionError as wrong:
        at = f"{wrong.field}: " if wrong.field else ""
        (board if wrong.field == "board" and board.is_given else kubelet).reject(f"{at}{wrong}")
    return made


def _noted(node: Obj, notes: dict[str, str]) -> Obj:
    meta: dict[str, Any] = node["metadata"]
    return {**node, "metadata": {**meta, "annotations": {**(meta.get("annotations") or {}), **notes}}}


def _configuration(field: Field) -> dict[str, Any] | None:
    """Written here, or the document of that kind in a file beside the scenario."""
    if isinstance(field.value, dict):
        return dict(field.value)
    name = field.text()
    path = Path(field.reading.manifest.file).parent / name
    try:
        text = path.read_bytes()[: _BYTES_MOST + 1].decode()
        values = [d.value for d in read_documents(text)[0]]
        found = [v for v in values if isinstance(v, dict) and v.get("kind") == KIND]
    except OSError as unreadable:
        field.reject(f"cannot be read: {unreadable.strerror}")
        return None
    except UnicodeDecodeError:
        text, found = "", []
    if len(text) > _BYTES_MOST or not found:
        field.reject(f"expected a {KIND}, or the path of one of at most {_BYTES_MOST:,} bytes")
        return None
    return found[0]
