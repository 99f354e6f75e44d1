"""Sets of neighbours kept from look to look are those found anew, and so are the nodes chosen from them."""

from __future__ import annotations

from random import Random

import pytest
from tests.slurm.slurmworld import world
from tests.slurm.test_properties import some_job
from tests.slurm.test_slurm_ahead import GRES, NODES

from fairway.slurm.placing.placing import Part, World, least_nodes, place
from fairway.slurm.placing.quick import choose_quick
from fairway.slurm.placing.runs import new_runs
from fairway.slurm.placing.uses import indexes
from fairway.slurm.selecting import need_of


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_is_what_is_found_anew(seed: int) -> None:
    random = Random(seed)
    w = world("", NODES, GRES)
    cluster = w.ctl.cluster
    kept, looks = {}, 0
    for _ in range(60):
        job = w.submit(**some_job(random) | {"qos": None})
        need = need_of(cluster, job, cluster.partitions["p4"])
        table, uses, weights = cluster.fits.table(need), cluster.uses, cluster.weights
        if table is None:
            continue
        allowed = random.randrange(1, 64)
        about = (need, table, uses.numbering, uses.kinds, allowed, weights)
        runs, fresh = kept.setdefault(need, new_runs(*about)), new_runs(*about)
        assert runs.follow(*about)
        assert (runs.cpus, runs.sets, runs.fitting) == (fresh.cpus, fresh.sets, fresh.fitting)
        least, nodes = least_nodes(need), indexes(allowed, len(uses.kinds))
        quick = choose_quick(need, table, uses.numbering, uses.kinds, nodes, weights=weights, min_nodes=least)
        assert runs.choose(need, uses.numbering, least) == quick
        looks += bool(quick)
        w.run(random.choice([0.5, 2, 9]))
    assert looks > 5


@pytest.mark.parametrize("seed", range(6))
def test_what_nodes_alike_were_given_is_what_is_worked_out_anew(seed: int) -> None:
    """`busy_first` changes nothing for a single node, and is never remembered."""
    random = Random(seed)
    w = world("", NODES, GRES)
    cluster, found = w.ctl.cluster, 0
    for _ in range(60):
        job = w.submit(**some_job(random) | {"qos": None})
        need = need_of(cluster, job, cluster.partitions["p4"])
        known = place(need, World(cluster.fits, cluster.uses, cluster.weights), 63)
        if known is not None:
            nodes = sum(1 << node for node in known.nodes)
            again = place(need, World(cluster.fits, cluster.uses, cluster.weights, busy_first=True), nodes)
            assert again == known and all(isinstance(part, Part) for part in known.parts)
            found += 1
        w.run(random.choice([0.5, 2, 9]))
    assert found > 5
