"""Where Karpenter's scheduler does what one would not expect: seen in the compiled engine, and so here."""

from __future__ import annotations

from typing import Any, ClassVar

from karpenterworlds import NOW_US, ZONES, context, kind, names, pod, pool, solve, state_node, wants, world

from fairway.provisioning.karpenter.disruption.methods import decide
from fairway.provisioning.karpenter.labels import ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE
from fairway.provisioning.karpenter.nodepools import node_pool
from fairway.provisioning.karpenter.packing import Options, Results
from fairway.provisioning.karpenter.requirement import one_of
from fairway.provisioning.karpenter.requirements import Requirements

SMALL = kind("s.small", 4, pods=4)
ARM = kind("a.arm", 4, arch="arm64", price=100_000)
APP = {"app": "x"}
SELF = {"matchLabels": APP}
SOFT = {"key": "soft", "effect": "PreferNoSchedule"}


def near(which: str, key: str, selector: dict[str, Any] | None = None) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": selector or SELF}
    return {"affinity": {which: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def asks(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": t} for t in terms]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def on(results: Results) -> dict[str, list[str]]:
    return {node.name: [p.name for p in pods] for node, pods in results.pods_on}


def why(results: Results) -> list[str]:
    return [str(r) for _, r in results.refused]


class TestDaemonSets:
    """Source: scheduler.go isDaemonPodCompatible, which changes the one pod it made of a DaemonSet."""

    def test_nodes_that_are_there_set_aside_room_for_those_that_only_dislike_them(self) -> None:
        node = state_node("n", SMALL, taints=[SOFT])
        made = world([SMALL], [pool()], nodes=(node,), daemons=(pod("agent", "500m"),))
        pods = [pod(f"p{i}", "500m", tolerations=[{"operator": "Exists"}]) for i in range(4)]
        found = solve(made, pods)
        assert on(found) == {"n": ["p0", "p1", "p2"]}  # of 4 pods, one is the agent's
        assert names(found) == [["p3"]]

    def test_without_a_nodepool_that_can_open_a_node_a_taint_keeps_them_off(self) -> None:
        node = state_node("n", SMALL, taints=[SOFT])
        closed = pool(requirements=[wants(ARCH, "In", "s390x")])
        made = world([SMALL], [closed], nodes=(node,), daemons=(pod("agent", "500m"),))
        pods = [pod(f"p{i}", "500m", tolerations=[{"operator": "Exists"}]) for i in range(4)]
        assert on(solve(made, pods)) == {"n": ["p0", "p1", "p2", "p3"]}

    def test_an_alternative_that_one_type_does_not_meet_is_gone_for_the_types_after_it(self) -> None:
        agent = pod("agent", "1", **asks([wants(ARCH, "In", "arm64")], [wants(ARCH, "In", "amd64")]))
        (claim,) = solve(world([SMALL, ARM], daemons=(agent,)), [pod("p", "1")]).claims
        assert {t.name for t in claim.types()} == {"s.small", "a.arm"}
        assert claim.requests["cpu"] == 2000  # s.small asked first: the DaemonSet is its from then on
        (claim,) = solve(world([ARM, SMALL], daemons=(agent,)), [pod("p", "1")]).claims
        assert claim.requests["cpu"] == 2000  # in this order both types run it
        only_arm = pod("p", "3500m", nodeSelector={ARCH: "arm64"})
        assert names(solve(world([SMALL, ARM], daemons=(agent,)), [only_arm])) == [["p"]]
        assert names(solve(world([ARM, SMALL], daemons=(agent,)), [only_arm])) == []


class TestNodesThatAreThere:
    """Source: existingnode.go Add, which narrows the node's requirements by those of the pod."""

    def test_a_label_that_a_pod_excludes_is_known_to_the_next(self) -> None:
        node = state_node("n", kind("s.small", 4))
        excluding = pod("a", "2", **asks([wants("team", "NotIn", "red")]))
        asking = pod("b", "1", nodeSelector={"team": "blue"})
        made = world([SMALL], [pool(labels={"team": "green"})], nodes=(node,))
        assert on(solve(made, [asking])) == {}
        assert on(solve(made, [excluding, asking])) == {"n": ["a", "b"]}

    def test_and_is_then_of_one_value(self) -> None:
        node = state_node("n", kind("s.small", 4))
        excluding = pod("a", "2", **asks([wants("team", "NotIn", "red")]))
        blue = pod("b", "1", nodeSelector={"team": "blue"})
        white = pod("c", "1", nodeSelector={"team": "white"})
        made = world([SMALL], [pool(labels={"team": "green"})], nodes=(node,))
        assert on(solve(made, [excluding, blue, white])) == {"n": ["a", "b"]}


def test_a_claim_tries_every_place_of_a_pods_volumes_until_a_type_is_left() -> None:
    """Source: nodeclaim.go CanAdd: the next alternative where no type does for this one."""
    here, there = kind("h.here", 4, zones=ZONES[:1]), kind("t.there", 8, zones=ZONES[1:2])
    alternatives = tuple(Requirements([one_of(ZONE, (zone,))]) for zone in ZONES[:2])
    made = world([here, there])
    made.volumes = {"b": alternatives}
    found = solve(made, [pod("a", "3"), pod("b", "2")])
    assert names(found) == [["a", "b"]]  # in the first zone both are too much for a type
    assert found.claims[0].type_names == ["t.there"]


class TestTopology:
    def test_an_affinity_sees_no_domains_of_nodepools_its_first_pod_does_not_tolerate(self) -> None:
        """Source: topologydomaingroup.go ForEachDomain: an affinity's taint policy is empty, which is not Ignore."""
        tainted = pool(taints=[{"key": "gpu", "effect": "NoSchedule"}])
        tolerant = {"tolerations": [{"operator": "Exists"}], "labels": APP}
        first = pod("a", "2", labels=APP, **near("podAffinity", ZONE))
        second = pod("b", "1", **tolerant, **near("podAffinity", ZONE))
        found = solve(world([SMALL], [tainted]), [first, second])
        assert names(found) == []
        assert f"key={ZONE} (counts = , podDomains" in why(found)[-1]
        found = solve(world([SMALL], [tainted]), [second, first])
        assert names(found) == [["b"]]

    def test_domains_a_nodepool_excludes_are_offered_and_leave_the_label_absent(self) -> None:
        """Source: topology.go AddRequirements, which starts from what the node asks; NotIn [x] and x are DoesNotExist,
        and that goes with NotIn.
        """
        excluding = pool(requirements=[wants("team", "NotIn", "red")])
        (claim,) = solve(
            world([SMALL], [excluding]), [pod("a", labels=APP, **near("podAffinity", "team"))]
        ).claims
        assert str(claim.requirements.get("team")) == "team DoesNotExist"

    def test_spreads_whose_pods_name_the_same_labels_are_one_with_the_filter_of_the_first(self) -> None:
        """Source: topologygroup.go Hash: hashstructure skips the values of a Requirement, which are not exported."""
        evenly = {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": SELF,
                }
            ]
        }
        full = state_node("n", SMALL, (pod("there", "4", labels=APP, node="n"),), labels={"disk": "ssd"})
        either = pool(requirements=[wants("disk", "In", "ssd", "hdd")])
        made = world([SMALL], [either], nodes=(full,))
        on_ssd = pod("b", "1", labels=APP, nodeSelector={"disk": "ssd"}, **evenly)
        too_big = pod("a", "99", labels=APP, nodeSelector={"disk": "hdd"}, **evenly)
        (claim,) = solve(made, [on_ssd]).claims
        assert claim.requirements.get(ZONE).sorted_values() == [ZONES[1]]
        (claim,) = solve(made, [too_big, on_ssd]).claims  # its spread does not look at nodes with an SSD
        assert claim.requirements.get(ZONE).sorted_values() == [ZONES[0]]

    def test_a_refusal_lists_hosts_that_are_only_known(self) -> None:
        """Source: topology.go Register: nodes that are there, and new ones once they have a pod."""
        made = world([SMALL], nodes=(state_node("n", SMALL, zone=ZONES[0]),))
        big = [pod(f"b{i}", "4") for i in range(2)]
        found = solve(made, [*big, pod("a", **near("podAffinity", HOSTNAME, {"matchLabels": {"app": "y"}}))])
        assert "(counts = hostname-placeholder-0001: 0, n: 0, podDomains" in why(found)[0]


def test_what_daemonsets_ask_is_not_said_of_types_whose_host_ports_are_taken() -> None:
    """Source: nodeclaim.go filterInstanceTypesByRequirements: the group is left out before its overhead is noted."""
    port = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    agent = pod("agent", "1", container=port)
    found = solve(world([SMALL], daemons=(agent,)), [pod("p", "2", container=port)])
    assert '{"cpu":"2","memory":"1Gi","pods":"1"}' in why(found)[0]


class TestDisruption:
    def test_types_without_spot_stay_among_those_that_replace_on_demand_by_spot(self) -> None:
        """Source: consolidation.go computeConsolidation: it adds the capacity type and filters no types by it."""
        types = [
            kind("l.large", 16, price=900_000, spot=950_000),
            kind("s.spot", 4, price=300_000, spot=100_000),
            kind("o.only", 4, price=200_000),
        ]
        big = state_node("n", types[0], (pod("p", "2", node="n"),))
        everything = pool(disruption={"budgets": [{"nodes": "100%"}]})
        command = decide(context(world(types, [everything], (big,)))).command
        assert command is not None
        (plan,) = command.replacements
        assert str(plan.requirements.get(CAPACITY_TYPE)) == f"{CAPACITY_TYPE} In [spot]"
        assert plan.type_names == ["s.spot", "o.only"]

    def test_a_node_whose_deletion_would_not_pass_under_balanced_is_not_simulated(self) -> None:
        """Source: singlenodeconsolidation.go, balanced.go CanPassThreshold: nothing is said of it."""
        balanced = pool(disruption={"consolidationPolicy": "Balanced", "budgets": [{"nodes": "100%"}]})
        cheap, dear = kind("c.cheap", 4, price=10_000), kind("d.dear", 4, price=1_000_000)
        stuck = {"nodeSelector": {HOSTNAME: "nowhere"}}
        nodes = (
            state_node("a", cheap, (pod("p", "2", node="a", **stuck),)),
            state_node("b", dear, (pod("q", "2", node="b", **stuck),)),
        )
        outcome = decide(context(world([cheap, dear], [balanced], nodes)))
        assert {n.about for n in outcome.notices} == {"Node/b"}

    def test_pods_that_do_not_move_count_where_they_are(self) -> None:
        """Source: topology.go countDomains, which asks the API server for pods and nodes, not for those that stay."""
        both = kind("s.small", 4, spot=60_000)
        never = {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": SELF, "maxUnavailable": 0},
            "status": {"disruptionsAllowed": 1},
        }
        staying = pod("stays", "1", labels=APP, node="n")
        apart = near("podAntiAffinity", CAPACITY_TYPE)
        moves = pod("moves", "3", node="n", **apart)
        node = state_node("n", both, (staying, moves), capacity_type="spot", drifted_s=60)
        command = decide(context(world([both], nodes=(node,)), budgets=(never,))).command
        assert command is not None
        assert [str(p.requirements.get(CAPACITY_TYPE)) for p in command.replacements] == [
            f"{CAPACITY_TYPE} In [on-demand]"
        ]

    def test_a_pod_that_is_bound_but_has_not_started_may_go_to_a_node_that_rests(self) -> None:
        """Source: scheduler.go addToExistingNode: pending by its phase."""
        resting = state_node(
            "b", SMALL, (pod("q", "1", node="b"),), rests_until_us=NOW_US + 1, consolidatable=False
        )
        starting = pod("p", "1", node="a")
        starting["status"]["phase"] = "Pending"
        for moving, expected in ((starting, "delete: [a]"), (pod("p", "1", node="a"), "")):
            going = state_node("a", SMALL, (moving,))
            everything = pool(disruption={"budgets": [{"nodes": "100%"}], "consolidateAfter": "1m"})
            outcome = decide(context(world([SMALL], [everything], (going, resting))))
            assert ("" if outcome.command is None else outcome.command.text()) == expected


class TestHash:
    """Source: nodepool.go Hash, over parsed fields: which templates are one to it was seen in the compiled engine."""

    TAINT: ClassVar[dict[str, str]] = {"key": "gpu", "effect": "NoSchedule"}

    def hash_of(self, **spec: Any) -> str:
        metadata = spec.pop("metadata", {})
        template = {
            "metadata": metadata,
            "spec": {"nodeClassRef": {"name": "a"}, "expireAfter": "30h", **spec},
        }
        return node_pool({"metadata": {"name": "p"}, "spec": {"template": template}}).hash

    def test_durations_are_what_they_last(self) -> None:
        assert self.hash_of() == self.hash_of(expireAfter="1800m") != self.hash_of(expireAfter="31h")
        assert self.hash_of(terminationGracePeriod="0s") != self.hash_of()

    def test_what_is_written_down_empty_is_not_what_is_absent(self) -> None:
        assert len({self.hash_of(), self.hash_of(taints=[]), self.hash_of(metadata={"labels": {}})}) == 3

    def test_what_is_off_is_absent_and_what_is_on_is_not(self) -> None:
        """Zero values of fields are left out, whichever their type; others are told apart."""
        assert {self.hash_of(a=zero) for zero in (False, 0, "", None)} == {self.hash_of()}
        assert len({self.hash_of(), *(self.hash_of(a=given) for given in (True, 2, "0", "x"))}) == 5

    def test_two_equal_items_cancel_out(self) -> None:
        assert self.hash_of(taints=[self.TAINT, self.TAINT]) == self.hash_of(taints=[])
        assert self.hash_of(taints=[self.TAINT] * 3) == self.hash_of(taints=[self.TAINT])


def test_whether_min_values_were_relaxed_is_said_by_the_claim_opened_last() -> None:
    """Source: scheduler.go addToNewNodeClaim: the claims of a NodePool share the template's map of annotations."""
    types = [kind("a.one", 4), kind("b.two", 4), kind("c.big", 16)]
    asking = pool(requirements=[wants(INSTANCE_TYPE, "Exists", least=2)])
    options = Options(min_values_policy="BestEffort")
    big, small = pod("big", "15"), pod("small", "3")
    for pods, expected in (([big], [True]), ([big, small], [False, False])):
        found = solve(world(types, [asking]), pods, options)
        assert [c.min_values_relaxed for c in found.claims] == expected
