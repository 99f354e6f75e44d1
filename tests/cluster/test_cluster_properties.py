"""Under random programs: accounts equal a recount, a rewind restores everything, copies agree with originals."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from accountstate import account_state, recount
from builders import GPU, HOSTNAME, ZONE, NodeBuilder, PodBuilder, node, pod
from fairway.cluster.podcounts import PREFERRED, PREFERRED_ANTI, REQUIRED, REQUIRED_ANTI, PodQuestion
from fairway.cluster.store import Store
from fairway.kube.labels import label_selector
from fairway.kube.objects import Key, Obj, controller_of, key_of

_ROLES = (REQUIRED_ANTI, REQUIRED, PREFERRED, PREFERRED_ANTI)
_QUESTIONS = tuple(
    PodQuestion(
        (((namespace,) if namespace else None, label_selector({"matchLabels": {"app": app}})),), is_live
    )
    for namespace in ("default", "")
    for app in ("web", "db")
    for is_live in (False, True)
)
_MANY = settings(max_examples=60, deadline=None, derandomize=True)


class Program:
    """Random writes to a store, all of them legal."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.store = Store(seed=seed)
        self.made = 0
        for name in ("default", "red"):
            self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        act = self.r.choices(
            (
                self.add_node,
                self.change_node,
                self.drop_node,
                self.add_pod,
                self.bind,
                self.change_pod,
                self.end,
                self.drop,
            ),
            (3, 2, 1, 8, 8, 4, 2, 3),
        )[0]
        act()

    def _pick(self, gk: str) -> Obj | None:
        found = self.store.objects(gk)
        return self.r.choice(found) if found else None

    def _name(self) -> str:
        self.made += 1
        return f"x{self.made}"

    def _node(self, name: str) -> NodeBuilder:
        made = node(name).cpu(self.r.choice((2, 4, "3500m"))).label(**{ZONE: self.r.choice("ab")})
        if self.r.random() < 0.3:
            made.taint(self.r.choice("kl"), effect=self.r.choice(("NoSchedule", "PreferNoSchedule")))
        if self.r.random() < 0.3:
            made.gpu(4).image(self.r.choice(("i:1", "i:2")), mib=100)
        if self.r.random() < 0.1:
            made.cordoned()
        return made

    def add_node(self) -> None:
        self.store.create(self._node(self._name()).build())

    def change_node(self) -> None:
        found = self._pick("Node")
        if found is not None:
            self.store.replace(self._node(found["metadata"]["name"]).build())

    def drop_node(self) -> None:
        found = self._pick("Node")
        if found is not None:
            self.store.delete(Key("Node", "", found["metadata"]["name"]))

    def _pod(self, name: str) -> PodBuilder:
        r = self.r
        made = pod(name, r.choice(("default", "red")))
        if r.random() < 0.8:
            made.label(app=r.choice(("web", "db")))
        if r.random() < 0.8:
            made.cpu(r.choice(("100m", 1))).memory(r.choice(("1Gi", "64Mi")))
        if r.random() < 0.2:
            made.gpu(1)
        if r.random() < 0.2:
            made.port(r.choice((80, 81)))
        if r.random() < 0.2:
            made.apart(HOSTNAME)
        if r.random() < 0.2:
            made.prefer_near(r.choice((1, 5)), ZONE, app="db")
        return made

    def add_pod(self) -> None:
        made = self.store.create(self._pod(self._name()).build())
        if self.r.random() < 0.2:
            # Some are born on a node, perhaps on one that is not there (yet).
            self._bind(made, self.r.choice(("x1", "x2", "nowhere")))

    def bind(self) -> None:
        found, target = self._pick("Pod"), self._pick("Node")
        if found is not None and target is not None and not found["spec"].get("nodeName"):
            self._bind(found, target["metadata"]["name"])

    def _bind(self, found: Obj, name: str) -> None:
        if "deletionTimestamp" not in found["metadata"]:
            self.store.bind(_key(found), name, {"phase": "Running", "startTime": "2026-01-01T00:00:01Z"})

    def change_pod(self) -> None:
        found = self._pick("Pod")
        if found is None:
            return
        if self.r.random() < 0.5:
            labels = {"app": self.r.choice(("web", "db"))}
            self.store.replace({**found, "metadata": {**found["metadata"], "labels": labels}})
        else:
            status = {**found.get("status", {}), "podIP": f"10.0.0.{self.r.randrange(9)}"}
            self.store.set_status(_key(found), status)

    def end(self) -> None:
        found = self._pick("Pod")
        if found is not None:
            status = {**found.get("status", {}), "phase": self.r.choice(("Succeeded", "Failed"))}
            self.store.set_status(_key(found), status)

    def drop(self) -> None:
        found = self._pick("Pod")
        if found is not None:
            self.store.delete(_key(found), grace_s=self.r.choice((None, 0)))


def _key(obj: Obj) -> Key:
    return Key(obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"])


def _answers(store: Store) -> dict[str, Any]:
    """What affinity and spreading would be told, by node name."""
    accounts = store.accounts
    names = accounts.row_of
    carried = {}
    for labels in ({"app": "web"}, {"app": "db"}, {}):
        interned = accounts.label_sets.of("default", labels)
        for term, counts in accounts.counts.carried(interned, _ROLES):
            carried[str(sorted(labels)), term] = {n: int(counts[row]) for n, row in names.items()}
    domains = accounts.counts.domains(ZONE)
    values = {i: v for v, i in domains.id_of.items()}
    return {
        "matching": [
            {n: int(accounts.counts.matching(q)[row]) for n, row in names.items()} for q in _QUESTIONS
        ],
        "carried": carried,
        "zones": {n: values.get(int(domains.of_row[row])) for n, row in names.items()},
    }


@_MANY
@given(st.integers(0, 10**9))
def test_accounts_equal_a_recount(seed: int) -> None:
    program = Program(seed)
    _answers(program.store)
    for _ in range(4):
        program.run(15)
        fresh = Store()
        fresh.accounts = recount(program.store)
        assert account_state(program.store.accounts) == account_state(fresh.accounts)
        assert _answers(program.store) == _answers(fresh)


def _told_by_objects(store: Store) -> dict[str, Any]:
    """What `_answers` and the accounts have to say, counted from the objects and their specs alone."""
    nodes = {n["metadata"]["name"]: n for n in store.objects("Node")}
    there: dict[str, list[Obj]] = {name: [] for name in nodes}
    for one in store.objects("Pod"):
        is_over = one.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if one["spec"].get("nodeName") in there and not is_over:
            there[one["spec"]["nodeName"]].append(one)
    carried: dict[Any, dict[str, int]] = {}
    for app in ("web", "db", None):
        for key, app_wanted, kind, weight in _terms(store):
            # Their terms are about pods of their own namespace; asked for is one of "default".
            counts = {
                n: sum(
                    (key, app_wanted, kind, weight) in _terms_of(p)
                    and p["metadata"]["namespace"] == "default"
                    for p in pods
                )
                for n, pods in there.items()
            }
            if app == app_wanted and any(counts.values()):
                carried[app, key, kind, weight] = counts
    return {
        "matching": [
            {n: sum(_is_asked_for(q, p) for p in pods) for n, pods in there.items()} for q in _QUESTIONS
        ],
        "carried": carried,
        "zones": {n: o["metadata"]["labels"][ZONE] for n, o in nodes.items()},
        "cpu": {n: sum(_milli_cpu(p) for p in pods) for n, pods in there.items()},
        "gpu": {n: sum(_gpus(p) for p in pods) for n, pods in there.items()},
        "scored": {
            n: [sum(_milli_cpu(p) or 100 for p in pods), sum(_mib(p) or 200 for p in pods)]
            for n, pods in there.items()
        },
        "pods": {n: sorted(map(_key, pods)) for n, pods in there.items()},
        "by zone": {
            z: sum(len(there[n]) for n, o in nodes.items() if o["metadata"]["labels"][ZONE] == z)
            for z in {o["metadata"]["labels"][ZONE] for o in nodes.values()}
        },
    }


def _is_asked_for(question: PodQuestion, one: Obj) -> bool:
    ((namespaces, selector),) = question.parts
    meta = one["metadata"]
    app = selector.requirements[0].values[0]
    is_there = namespaces is None or meta["namespace"] in namespaces
    is_counted = not (question.is_live and "deletionTimestamp" in meta)
    return is_there and is_counted and (meta.get("labels") or {}).get("app") == app


def _terms_of(one: Obj) -> set[tuple[str, str, str, int]]:
    """Of the two kinds that programs make: (topology key, app, role, weight)."""
    affinity, found = one["spec"].get("affinity") or {}, set()
    for term in affinity.get("podAntiAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", ()):
        found.add((term["topologyKey"], term["labelSelector"]["matchLabels"]["app"], REQUIRED_ANTI, 1))
    for soft in affinity.get("podAffinity", {}).get("preferredDuringSchedulingIgnoredDuringExecution", ()):
        term = soft["podAffinityTerm"]
        app = term["labelSelector"]["matchLabels"]["app"]
        found.add((term["topologyKey"], app, PREFERRED, soft["weight"]))
    return found


def _terms(store: Store) -> set[tuple[str, str, str, int]]:
    return {term for p in store.objects("Pod") for term in _terms_of(p)}


def _asked(one: Obj, resource: str) -> str:
    (container,) = one["spec"]["containers"]
    return str((container.get("resources") or {}).get("requests", {}).get(resource, "0"))


def _milli_cpu(one: Obj) -> int:
    return {"0": 0, "100m": 100, "1": 1000}[_asked(one, "cpu")]


def _mib(one: Obj) -> int:
    return {"0": 0, "64Mi": 64, "1Gi": 1024}[_asked(one, "memory")]


def _gpus(one: Obj) -> int:
    (container,) = one["spec"]["containers"]
    return int((container.get("resources") or {}).get("limits", {}).get(GPU, 0))


def _told_by_accounts(store: Store) -> dict[str, Any]:
    accounts = store.accounts
    names = accounts.row_of
    carried = {}
    for app in ("web", "db", None):
        interned = accounts.label_sets.of("default", {} if app is None else {"app": app})
        for term, counts in accounts.counts.carried(interned, _ROLES):
            (wanted,) = term.term.selector.requirements
            at = (app, term.term.topology_key, term.role, term.weight)
            assert wanted.values == (app,)
            by_name = {n: int(counts[row]) for n, row in names.items()}
            if any(by_name.values()):
                carried[at] = by_name
    domains = accounts.counts.domains(ZONE)
    sums = domains.sums(accounts.pod_count)
    present = domains.present(accounts.alive)
    answers = _answers(store)
    column = accounts.column_of.get(GPU)
    return {
        "matching": answers["matching"],
        "carried": carried,
        "zones": answers["zones"],
        "cpu": {n: int(accounts.requested[row, 0]) for n, row in names.items()},
        "gpu": {n: 0 if column is None else int(accounts.requested[row, column]) for n, row in names.items()},
        "scored": {
            n: [int(accounts.non_zero[row, 0]), int(accounts.non_zero[row, 1]) >> 20]
            for n, row in names.items()
        },
        "pods": {n: sorted(accounts.pods[row]) for n, row in names.items()},
        "by zone": {z: int(sums[i]) for z, i in domains.id_of.items() if present[i]},
    }


@settings(_MANY, max_examples=25)
@given(st.integers(0, 10**9))
def test_accounts_say_what_the_objects_say(seed: int) -> None:
    """Terms of pods in other namespaces than "default" are about pods there: nobody here asks for those."""
    program = Program(seed)
    for turn in range(5):
        program.run(12)
        assert _told_by_accounts(program.store) == _told_by_objects(program.store)
        if turn == 2:
            program.store = program.store.fork()


@_MANY
@given(st.integers(0, 10**9), st.permutations(range(len(_QUESTIONS))))
def test_a_question_counts_alike_whenever_it_is_first_asked(seed: int, order: list[int]) -> None:
    program = Program(seed)
    for number in order:
        program.run(6)
        program.store.accounts.counts.matching(_QUESTIONS[number])
        if number % 3 == 0:
            program.store = program.store.fork()
    fresh = Store()
    fresh.accounts = recount(program.store)
    assert _answers(program.store) == _answers(fresh)


@_MANY
@given(st.integers(0, 10**9))
def test_orphans_are_the_pods_that_no_controller_has(seed: int) -> None:
    program, dice = Program(seed), Random(seed)
    for _ in range(6):
        program.run(8)
        for found in program.store.objects("Pod"):
            if dice.random() < 0.3 and "deletionTimestamp" not in found["metadata"]:
                owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
                said = [{**owner, "controller": dice.random() < 0.7}] if dice.random() < 0.8 else []
                program.store.replace({**found, "metadata": {**found["metadata"], "ownerReferences": said}})
        for store in (program.store, program.store.fork()):
            for namespace in ("default", "red"):
                want = [p for p in store.objects("Pod", namespace) if controller_of(p) is None]
                assert store.orphans("Pod", namespace) == want


@_MANY
@given(st.integers(0, 10**9), st.integers(1, 40))
def test_a_rewind_restores_everything(seed: int, steps: int) -> None:
    program = Program(seed)
    program.run(25)
    store = program.store
    before = _everything(store)
    mark = store.mark()
    program.run(steps)
    store.rewind(mark)
    assert _everything(store) == before
    # And goes on as if nothing had been: the same writes give the same objects.
    twin = store.fork()
    for each in (store, twin):
        each.create(pod("later").build())
    assert _everything(store) == _everything(twin)


@_MANY
@given(st.integers(0, 10**9))
def test_rewinds_nest(seed: int) -> None:
    program = Program(seed)
    store = program.store
    marks = []
    for _ in range(4):
        program.run(8)
        marks.append((store.mark(), _everything(store)))
    for mark, state in reversed(marks):
        store.rewind(mark)
        assert _everything(store) == state


@_MANY
@given(st.integers(0, 10**9))
def test_a_fork_shares_nothing_that_changes(seed: int) -> None:
    program = Program(seed)
    program.run(25)
    before = _everything(program.store)
    twin = program.store.fork()
    assert _everything(twin) == before
    other = Program(seed)
    other.store, other.made = twin, 1000
    other.run(25)
    assert _everything(program.store) == before
    state = _everything(twin)
    program.run(25)
    assert _everything(twin) == state


@_MANY
@given(st.integers(0, 10**9))
def test_the_log_tells_the_whole_story(seed: int) -> None:
    """Whoever follows the changes holds the objects that are there."""
    program = Program(seed)
    program.run(60)
    held: dict[Key, Obj] = {}
    for change in program.store.log.since(0):
        assert (change.key in held) == (change.old is not None)
        assert held.get(change.key) == change.old
        if change.type == "DELETED":
            del held[change.key]
        else:
            held[change.key] = change.obj
    store = program.store
    there = [o for gk in store.kinds() for o in store.objects(gk)]
    assert sorted(held) == sorted(key_of(o) for o in there)
    assert all(held[key_of(o)] is o for o in there)


def _everything(store: Store) -> dict[str, Any]:
    return {
        "version": store.version,
        "objects": {gk: store.objects(gk) for gk in store.kinds()},
        "owners": {uid: store.by_uid(uid) is not None for uid in sorted(store.owners.key_by_uid)},
        "accounts": account_state(store.accounts),
        "answers": _answers(store),
    }


def test_extended_resources_get_columns_of_their_own() -> None:
    store = Store()
    store.create(node("n").gpu(4).build())
    store.create(pod("p").gpu(3).build())
    store.bind(Key("Pod", "default", "p"), "n", {})
    accounts = store.accounts
    column = accounts.column_of[GPU]
    assert (accounts.allocatable[0, column], accounts.requested[0, column]) == (4, 3)


def test_the_state_of_a_row_is_all_that_resources_say_of_it() -> None:
    store = Store()
    for name in ("n", "same"):
        store.create(node(name).gpu(4).build())
    accounts = store.accounts
    empty = accounts.state(0)
    assert empty == accounts.state(1)
    store.create(pod("p").gpu(3).build())
    store.bind(Key("Pod", "default", "p"), "n", {})
    assert accounts.state(0) != accounts.state(1) == empty
    # A copy has arrays of its own, and a new column makes new ones.
    twin = accounts.copy()
    store.delete(Key("Pod", "default", "p"), grace_s=0)
    assert (accounts.state(0), twin.state(0) == twin.state(1)) == (empty, False)
    accounts.column("example.com/fpga")
    assert accounts.state(0) == accounts.state(1) != empty


def test_the_turns_of_rows_are_their_places_in_the_order() -> None:
    store = Store()
    for i in range(40):
        store.create(node(f"n{i}").zone("abc"[i % 3]).build())
    for i in (3, 4, 17):
        store.delete(Key("Node", "", f"n{i}"))
    accounts = store.accounts
    order = accounts.order().tolist()
    assert len(order) == 37
    assert [accounts.turns()[row] for row in order] == list(range(37))
