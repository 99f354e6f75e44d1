"""One object that no reader can make anything of is left out of a cluster's history, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fairway.apiserver.history import Entry, History, There
from fairway.apiserver.historyfiles import ADD, FOLDER, Reading, contents, lines
from fairway.cluster.changes import ADDED
from fairway.kube.objects import Key


@pytest.mark.parametrize(
    "odd", [{"source": "kubelet"}, {"series": [3]}, {"reason": "Preempted", "involvedObject": "pod"}]
)
def test_an_odd_event_is_left_out_alone(odd: dict[str, Any], tmp_path: Path) -> None:
    event = {"metadata": {"name": "e", "namespace": "d"}, "type": "Normal", **odd}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "d"}, "spec": {}}
    history = History(tmp_path)
    told = [
        There(0, []),
        Entry(1, 5, ADDED, Key("Event", "d", "e"), event, None, None),
        Entry(2, 6, ADDED, Key("Job.batch", "d", "j"), job, None, None),
    ]
    history.write(told)
    history.write([Entry(3, 7, ADDED, Key("Job.batch", "d", "k"), job, None, None)])
    history.close()
    reading = Reading()
    found = [line for line in lines(contents(tmp_path / FOLDER), reading) if line[0] == ADD]
    assert [line[1] for line in found] == [6, 7] and not reading.notes
