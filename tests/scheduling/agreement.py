"""Plays a random program of pods on a random cluster, and asks Fairway and the oracle at every step."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import oracle
import worlds

from fairway.cluster.records import PodRecord
from fairway.cluster.store import Store
from fairway.kube.labels import label_selector
from fairway.kube.manifest import read_text
from fairway.kube.objects import Key, key_of
from fairway.kube.timestamps import SECOND_US, rfc3339
from fairway.scheduling.config import read_profiles
from fairway.scheduling.cycle import Diagnosis, Scheduler
from fairway.scheduling.preemption import Budget, explain
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.twin.owners import DefaultSelectors

Obj = dict[str, Any]


class Play:
    """One cluster in both worlds, scheduled by the default profile or by one of its own."""

    def __init__(self, seed: int, nodes: list[Obj] | None = None, *, has_own_profile: bool = False) -> None:
        r = self.r = Random(seed)
        self.store = Store(seed=seed)
        self.mix = r.choice((worlds.HARSH, worlds.MILD, worlds.MILD, worlds.CROWDED, worlds.CROWDED))
        drawn = [worlds.random_node(r, i, self.mix) for i in range(r.choice((2, 3, 4, 6)))]
        self.nodes = drawn if nodes is None else nodes
        self.services = worlds.random_services(r) if r.random() < 0.4 else []
        self.budgets = worlds.random_budgets(r)
        for name, labels in worlds.NAMESPACES.items():
            meta = {"name": name, "labels": labels}
            self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        for obj in (*self.nodes, *self.services):
            self.store.create(obj)
        raw = worlds.random_profile(r, [n["metadata"]["name"] for n in self.nodes]) if has_own_profile else {}
        profile = _profile(raw) if has_own_profile else DEFAULT_PROFILE
        self.scheduler = Scheduler(self.store.accounts, profile, DefaultSelectors(self.store).of)
        self.world = oracle.World(self.nodes, [], worlds.NAMESPACES, self.services, self.budgets, profile=raw)
        self.clock = 0
        self.count = 0

    def step(self) -> str:
        """Place one more random pod; what both disagree about, or nothing."""
        raw = worlds.random_pod(self.r, self.count, [n["metadata"]["name"] for n in self.nodes], self.mix)
        self.count += 1
        return self.judge(raw)

    def judge(self, raw: Obj) -> str:
        """Place this pod; what both disagree about, or nothing."""
        pod = self.store.create(raw)
        record = self.store.accounts.record(pod, key_of(pod))
        decided = oracle.decide(self.world, raw)
        sheet = self.scheduler.score_sheet(record)
        ours = dict(zip(sheet.nodes, sheet.totals, strict=True))
        if sorted(ours) != sorted(decided.feasible):
            return f"feasible: ours {sorted(ours)}, oracle {sorted(decided.feasible)} {decided.message}"
        if ours != decided.scores:
            return f"scores: ours {ours} {sheet.by_plugin}, oracle {decided.scores}"
        verdict = self.scheduler.place(record, self.r.getrandbits(30))
        if isinstance(verdict, Diagnosis):
            return self._compare_refusal(record, raw, verdict, decided)
        if ours[verdict.node] != max(ours.values()):
            return f"choice: {verdict.node} of {ours}"
        self.bind(raw, verdict.node)
        return ""

    def _compare_refusal(
        self, record: PodRecord, raw: Obj, diagnosis: Diagnosis, decided: oracle.Decision
    ) -> str:
        budgets = [
            Budget(
                b["metadata"]["namespace"],
                label_selector(b["spec"].get("selector")),
                b["status"]["disruptionsAllowed"],
            )
            for b in self.budgets
        ]
        said = explain(self.scheduler, record, diagnosis, budgets, self.r.getrandbits(30))
        if said.message != decided.message:
            return f"message: ours {said.message!r}, oracle {decided.message!r}"
        found = said.preemption
        if found is None:
            return f"preemption: none of ours, oracle {decided.candidates}" if decided.best else ""
        if found.node not in decided.best:
            return f"preemption: ours on {found.node}, oracle {decided.best} of {decided.candidates}"
        ours = (tuple(k.name for k in found.victims), found.pdb_violations)
        if ours != decided.candidates[found.node]:
            return f"victims: ours {ours}, oracle {decided.candidates[found.node]}"
        self.after_preemption(record, raw, found.node, found.victims)
        return ""

    def after_preemption(self, record: PodRecord, raw: Obj, node: str, victims: tuple[Key, ...]) -> None:
        """Sometimes the preemptor stays nominated for a while; sometimes victims linger or go."""
        if self.r.random() < 0.6:
            self.scheduler.nominated[record.key] = (record, node)
            self.world.nominated.append((raw, node))
        for key in victims:
            if self.r.random() < 0.6:
                self.delete(key, lingers=self.r.random() < 0.3)

    def disturb(self) -> None:
        """Something else happens: a pod ends or lingers, a node changes, a nomination is void."""
        kind = self.r.random()
        if kind < 0.5 and self.world.pods:
            gone = self.r.choice(self.world.pods)
            self.delete(key_of(gone), lingers=self.r.random() < 0.4)
        elif kind < 0.65:
            i = self.r.randrange(len(self.nodes))
            changed = worlds.random_node(self.r, i, self.mix)
            self.nodes[i] = changed
            self.store.replace(changed)
        elif kind < 0.8 and self.world.nominated:
            raw, _ = self.world.nominated.pop()
            del self.scheduler.nominated[key_of(raw)]

    def bind(self, raw: Obj, node: str) -> None:
        key = key_of(raw)
        if self.scheduler.nominated.pop(key, None):
            self.world.nominated = [(p, n) for p, n in self.world.nominated if key_of(p) != key]
        self.clock += 1
        status = {"phase": "Running", "startTime": rfc3339(self.clock * SECOND_US)}
        self.store.bind(key, node, status)
        self.world.pods.append({**raw, "spec": {**raw["spec"], "nodeName": node}, "status": status})

    def delete(self, key: Key, *, lingers: bool) -> None:
        for pod in self.world.pods:
            if key_of(pod) == key:
                if lingers:
                    pod["metadata"] = {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
                else:
                    self.world.pods.remove(pod)
                break
        self.store.delete(key, grace_s=30 if lingers else 0)


def _profile(raw: Obj) -> Profile:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return read_profiles(read_text(json.dumps({**head, "profiles": [raw]}), "scheduler.yaml")[0])[0]


def disagreement(seed: int, pods: int = 14, *, has_own_profile: bool = False) -> str:
    """The first thing Fairway and the oracle disagree about in the program of this seed; empty if nothing."""
    play = Play(seed, has_own_profile=has_own_profile)
    for i in range(pods):
        found = play.step()
        if found:
            return f"seed {seed} pod {i}: {found}"
        if play.r.random() < 0.3:
            play.disturb()
    return ""
