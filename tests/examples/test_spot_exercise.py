"""The exercise end to end: nodes appear, one job is preempted and returns, all finish, nodes vanish; its bill."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairway.catalog.catalog import load_catalog
from fairway.kube.timestamps import MINUTE_US, SECOND_US
from fairway.results.billing import metered
from fairway.scenario.loading import load_scenario
from fairway.scenario.running import Finished, run_scenario
from fairway.twin.kubelet.component import Kubelet

EXAMPLE = Path(__file__).parents[2] / "examples" / "11-spot-exercise"
# Jobs are created at 0 s and batched for a second, machines boot for 90 s.
UP_S, BOOT_S = 91, 90
# After a node's last pod: consolidateAfter, fifteen seconds until the command is carried out, five of draining.
LINGER_S = 120 + 15 + 5
# When the last pod of each node ends: the node's job began at 91 s. The preempted one (30 min of work, a checkpoint
# every 5 min, preempted 1,109 s in with 15 min saved) makes room for 15 min of the urgent job and is back at 2,101 s
# for the 15 min left; the others run 40, 50 and 60 min.
LAST_PODS_S = (2_101 + 900, UP_S + 2_400, UP_S + 3_000, UP_S + 3_600)
SPOT_DOLLARS_AN_HOUR = 0.35


@pytest.fixture(scope="module")
def finished() -> Finished:
    return run_scenario(load_scenario(EXAMPLE))


def test_four_nodes_come_for_four_jobs_and_vanish_after_their_last_pod(finished: Finished) -> None:
    nodes, began = finished.outcome.nodes.columns, finished.outcome.began_us
    stays = sorted(
        ((c - began) // SECOND_US, (d - began) // SECOND_US)
        for c, d in zip(nodes["created_us"], nodes["deleted_us"], strict=True)
    )
    assert stays == sorted((UP_S, end + LINGER_S) for end in LAST_PODS_S)
    assert set(nodes["instance_type"]) == {"g5.xlarge"}


def test_one_low_job_is_preempted_and_resumes_from_its_checkpoint(finished: Finished) -> None:
    jobs = finished.twin.store.objects("Job.batch")
    assert sum(job["status"].get("succeeded", 0) for job in jobs) == 5
    kubelet = finished.twin.host.parts["kubelet"]
    assert isinstance(kubelet, Kubelet)
    totals = kubelet.progress.totals
    assert (totals.resumed, totals.lost_us // SECOND_US) == (1, 20 * 60 - UP_S - 15 * 60)
    assert totals.useful_us == (30 + 40 + 50 + 60 + 15) * MINUTE_US
    assert totals.lost_gpu_us == 1000 * totals.lost_us


def test_its_bill_is_that_of_the_seconds_its_machines_were_there(finished: Finished) -> None:
    ledger = metered(finished.outcome, load_catalog()).ledger
    billed_dollars = int(ledger.micros.sum()) / 1e6
    # From the launch on: boots are billed.
    seconds = sum(end + LINGER_S - UP_S + BOOT_S for end in LAST_PODS_S)
    assert seconds == 12_830
    # 12,830 s at $0.35 an hour.
    assert round(billed_dollars, 2) == round(seconds * SPOT_DOLLARS_AN_HOUR / 3600, 2) == 1.25
