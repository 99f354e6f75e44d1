"""A site's configuration as queues: accounts → Cohorts and ClusterQueues, partitions → LocalQueues, QOS → classes.

Slurm's shares own nothing; a ClusterQueue owns its quota. Each account gets its part of every kind of nodes by its
share, rounded down; what is left lies with the root Cohort, and whoever has work borrows what others leave idle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from fairway.kube.objects import Obj
from fairway.slurm.cluster import Cluster
from fairway.slurm.conf.lines import read_lines
from fairway.slurm.converting.jobs import PYTORCH_FRAMEWORK, object_name
from fairway.slurm.converting.layouts import GPU, MIB
from fairway.slurm.converting.notes import CHANGED, LOST, Note
from fairway.slurm.converting.sitenodes import (
    Kind,
    Switches,
    amount_text,
    flavor_of,
    kinds_of,
    node_objects,
    node_pool,
    switches_of,
    topology_of,
)
from fairway.slurm.model.association import FAIRSHARE_PARENT, Association
from fairway.slurm.model.partition import Partition
from fairway.slurm.sitefolder import SiteFolder

KUEUE = "kueue.x-k8s.io/v1beta1"
INSTALLED_FRAMEWORKS = (
    "batch/job", "kubeflow.org/mpijob", "ray.io/rayjob", "ray.io/raycluster", "jobset.x-k8s.io/jobset", "pod",
    "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset",
)  # fmt: skip
"""Of Kueue's own manifests, those that a site from Slurm can meet."""
MAX_CLASS = 2_000_000_000
_SECTIONS = ("slurm.conf", "NodeName", "PartitionName", "NodeSet", "DownNodes", "FrontendName")
# Keys of a partition's line that queues, labels, jobs or nodes carry.
_CARRIED = frozenset(
    ["partitionname", "nodes", "default", "state", "allowaccounts", "denyaccounts", "defaulttime"]
)
_PARTITION = {
    "maxtime": (CHANGED, "a job without a time limit gets the partition's; more than that is not refused",
                "Refuse it with a ValidatingAdmissionPolicy on kueue.x-k8s.io/max-exec-time-seconds"),
    "maxnodes": (LOST, "a job's number of nodes is not limited", "Refuse it with a ValidatingAdmissionPolicy"),
    "minnodes": (LOST, "a job's number of nodes is not limited", "Refuse it with a ValidatingAdmissionPolicy"),
    "allowgroups": (LOST, "groups are not known", "Bind roles in the namespaces of those who may"),
    "allowqos": (LOST, "a queue takes every class", "Refuse others with a ValidatingAdmissionPolicy"),
    "denyqos": (LOST, "a queue takes every class", "Refuse them with a ValidatingAdmissionPolicy"),
    "qos": (LOST, "limits of a partition's QOS are not known", "Give the nodes a flavor with its own quota"),
    "oversubscribe": (CHANGED, "CPUs that are requested are not shared", "Use GPU time-slicing"),
    "exclusiveuser": (LOST, "nodes that only one user shares are not known", "Use tainted pools"),
    "gracetime": (CHANGED, "a preempted pod has its own grace period", "Set terminationGracePeriodSeconds"),
    "preemptmode": (CHANGED, "what is preempted is evicted and queued again, never suspended in memory", ""),
    "reqresv": (LOST, "there are no reservations", "Hold the LocalQueue outside of the time"),
    "rootonly": (CHANGED, "its LocalQueues are made all the same", "Give nobody a role in their namespace"),
    "maxcpuspernode": (LOST, "CPUs of a node are not kept back for others", "Reserve them in the kubelet"),
    "maxmempernode": (LOST, "memory per node is not limited", "Use a LimitRange"),
    "maxmempercpu": (LOST, "memory per CPU is not limited", "Use a ValidatingAdmissionPolicy"),
    "lln": (CHANGED, "pods are packed or spread by kube-scheduler", "Set scoringStrategy LeastAllocated"),
    "tresbillingweights": (CHANGED, "what is owed goes by price, not by billing units", "See fairway cost"),
    "prioritytier": (LOST, "a queue has no tier", "Use a WorkloadPriorityClass for its jobs"),
    "priorityjobfactor": (LOST, "a queue is no part of priority", "Use WorkloadPriorityClasses"),
    "overtimelimit": (CHANGED, "a job ends at its limit", "Add the minutes to the limit"),
    "allocnodes": (LOST, "where a job was submitted from is not known", "Bind roles by user"),
    "alternate": (LOST, "a queue has no other one", "Use MultiKueue"),
}  # fmt: skip

# Values of those that ask for nothing.
_PLAIN = {
    "maxtime": ("infinite", "unlimited", "-1"), "maxnodes": ("infinite", "unlimited"), "minnodes": ("0", "1"),
    "maxcpuspernode": ("infinite", "unlimited"), "maxmempernode": ("0", "unlimited"),
    "maxmempercpu": ("0", "unlimited"), "priorityjobfactor": ("1",), "prioritytier": ("1",), "gracetime": ("0",),
    "preemptmode": ("off",), "overtimelimit": ("0",),
}  # fmt: skip
_NOTHING = ("no", "all")


@dataclass(slots=True)
class ConvertedSite:
    """`objects`: what an administrator applies; `machines`: the Nodes, which a real cluster has already."""

    objects: list[Obj] = field(default_factory=list)
    machines: list[Obj] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    levels: int = 0
    classes: frozenset[str] = frozenset()


def convert_site(site: SiteFolder, cluster: Cluster, moved: frozenset[str] | None = None) -> ConvertedSite:
    """Everything but jobs. `moved`: of the nodes these alone."""
    made = ConvertedSite()
    notes = made.notes
    for problem in site.conf.problems:
        text = f"{problem.path}={problem.value}" if problem.value else problem.path
        notes.append(Note(problem.file, problem.line, LOST, text, problem.expected, "Mend it"))
    switches = switches_of(cluster, notes)
    made.levels = switches.levels
    made.kinds = kinds_of(cluster, switches, notes, moved)
    _settings(site, notes)
    _limits(site, notes)
    objects = made.objects
    if switches.levels:
        objects.append(topology_of(switches))
    objects += [flavor_of(kind, switches) for kind in made.kinds]
    made.classes = frozenset(site.accounts.qos)
    objects += _classes(site)
    objects += _queues(site, cluster, made, switches)
    objects += [node_pool(kind) for kind in made.kinds if kind.is_cloud]
    if any(kind.is_cloud for kind in made.kinds):
        why = "which instance types these names stand for is not written there"
        do = "Check the NodePools' requirements, and the EC2NodeClass default or another cloud's"
        notes.append(Note("slurm.conf", 0, CHANGED, "NodeName … State=CLOUD", why, do))
    made.machines = [
        node for kind in made.kinds if not kind.is_cloud for node in node_objects(kind, switches)
    ]
    for kind in made.kinds:
        if kind.left_out:
            why = f"a flavor has 8 labels at most: {kind.name} goes without {', '.join(kind.left_out)}"
            do = "Kueue does not look at them; kube-scheduler does"
            notes.append(Note("slurm.conf", 0, CHANGED, f"NodeName={kind.nodes[0].name}", why, do))
    made.notes = sorted(dict.fromkeys(notes))
    return made


def kueue_configuration() -> Obj:
    """What Kueue must be told: shares count, and PyTorchJobs are queued."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "kind": "Configuration",
        "fairSharing": {
            "enable": True,
            "preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"],
        },
        "integrations": {"frameworks": [*INSTALLED_FRAMEWORKS, PYTORCH_FRAMEWORK]},
    }


def scenario_of(name: str, has_jobs: bool) -> Obj:
    """The site as a scenario beside the files of a conversion."""
    spec = {
        "description": "A Slurm site on Kubernetes, as fairway slurm convert wrote it.",
        "manifests": ["nodes.yaml", "queues.yaml", *(["jobs/*.yaml"] if has_jobs else [])],
        "kueue": {"configuration": "kueue.yaml"},
    }
    meta = {"name": object_name(name)}
    return {"apiVersion": "fairway.dev/v1alpha1", "kind": "Scenario", "metadata": meta, "spec": spec}


@cache
def _site_keys() -> dict[str, tuple[str, str, str, str]]:
    text = (files("fairway.slurm") / "data" / "sitekeys.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in text.splitlines()[1:])
    return {key.lower(): (key, kind, why, do) for key, kind, why, do in rows}


def _settings(site: SiteFolder, notes: list[Note]) -> None:
    """Keys of slurm.conf that jobs feel, and keys of partitions, where they stand."""

    def included(name: str) -> str:
        return site.conf.texts[name if name in site.conf.texts else name.rsplit("/", 1)[-1]]

    for line in read_lines(site.conf.texts["slurm.conf"], "slurm.conf", _SECTIONS, included).lines:
        if line.first == "partitionname":
            for key, value in line.pairs.items():
                plain = value.lower() in (*_NOTHING, *_PLAIN.get(key, ()))
                if key in _PARTITION and key not in _CARRIED and not plain:
                    kind, why, do = _PARTITION[key]
                    text = f"PartitionName={line.pairs['partitionname']} {key}={value}"
                    notes.append(Note(line.file, line.number, kind, text[:80], why, do))
        elif line.first not in ("nodename", "nodeset"):
            for key, value in line.pairs.items():
                if key in _site_keys() and value.lower() not in ("0", "no", "(null)", "none"):
                    name, kind, why, do = _site_keys()[key]
                    notes.append(Note(line.file, line.number, kind, f"{name}={value}"[:80], why, do))
                elif key == "preempttype" and value != "preempt/none":
                    why = "who may preempt whom goes by the classes' values, not by lists"
                    notes.append(Note(line.file, line.number, CHANGED, f"PreemptType={value}", why, ""))
                elif key == "preemptmode" and any(w in value.lower() for w in ("suspend", "gang")):
                    why = "what is preempted is evicted and queued again, never suspended in memory"
                    do = "Let it write checkpoints"
                    notes.append(Note(line.file, line.number, LOST, f"PreemptMode={value}", why, do))


_KEPT_LIMITS = ("grptres", "fairshare", "shares", "description", "organization", "qos", "defaultqos",
                "defaultaccount", "adminlevel", "partition", "coordinator", "defaultwckey")  # fmt: skip


def _limits(site: SiteFolder, notes: list[Note]) -> None:
    """Limits of accounts and users in the dump that are no quota."""
    for name in filter(None, (site.accounts_file,)):
        for number, line in enumerate(site.files[name].splitlines(), 1):
            who = line.partition(":")[0].replace(" - ", " ").replace("'", "")
            if line.startswith("#") or not line.startswith(("Account", "User", "Cluster")):
                continue
            for part in line.split(":")[1:]:
                key, equals, value = part.partition("=")
                if not equals or key.strip().lower() in _KEPT_LIMITS or not value.strip("'"):
                    continue
                what = "one user's" if line.startswith("User") else "such a"
                why = f"{what} limit is not known to Kueue"
                do = "Use a ResourceQuota (count/jobs.batch), a policy, or a ClusterQueue of its own"
                notes.append(Note(name, number, LOST, f"{who} {part}", why, do))
            if line.startswith("User") and "Fairshare=" in line and "Fairshare=1" not in line.split(":"):
                why = "users of one account share its queue in order of creation"
                do = "Use Kueue's admissionFairSharing with a LocalQueue for each user"
                if "Fairshare=parent" not in line:
                    notes.append(Note(name, number, LOST, f"{who} Fairshare", why, do))
    for qos in site.accounts.qos.values():
        limited = [k for k in ("max_wall", "max_tres_per_user", "max_tres_per_job", "max_jobs", "max_submit",
                               "grp_tres", "grp_jobs", "max_tres_per_account") if getattr(qos.limits, k)]  # fmt: skip
        if limited:
            why = f"limits of a QOS ({', '.join(limited)}) are not known to Kueue"
            do = "Give the class a ClusterQueue of its own, or refuse it with a policy"
            notes.append(Note(site.qos_file or "sacctmgr", 0, LOST, f"QOS {qos.name}", why, do))


def _classes(site: SiteFolder) -> list[Obj]:
    return [
        {
            "apiVersion": KUEUE,
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": object_name(qos.name)},
            "value": min(qos.priority, MAX_CLASS),
            "description": f"Slurm's QOS {qos.name}",
        }
        for qos in site.accounts.qos.values()
    ]


@dataclass(slots=True)
class _Place:
    """An account: its association, and whether it has users, accounts below."""

    one: Association
    has_users: bool
    below: list[Association]


def _queues(site: SiteFolder, cluster: Cluster, made: ConvertedSite, switches: Switches) -> list[Obj]:
    """Cohorts, then ClusterQueues with their namespaces and LocalQueues."""
    accounts = site.accounts
    root = next(a for a in accounts.associations.values() if a.parent is None)
    objects: list[Obj] = []
    preemption = _preemption(site)
    strategy = "StrictFIFO" if site.conf.get("SchedulerType") == "sched/builtin" else "BestEffortFIFO"
    if strategy == "BestEffortFIFO" and not site.conf.get("SchedulerParameters"):
        why = "Kueue has no backfill: BestEffortFIFO starts what fits and keeps nothing free for what waits"
        notes_do = "Use StrictFIFO for queues of big jobs"
        made.notes.append(Note("slurm.conf", 0, CHANGED, "SchedulerType=sched/backfill", why, notes_do))
    given: dict[tuple[str, str], int] = {}
    tail: list[Obj] = []

    def walk(one: Association, part: float, cohort: str, cap: dict[str, int]) -> None:
        below = [accounts.associations[c] for c in one.children if not accounts.associations[c].user]
        users = [accounts.associations[c].user for c in one.children if accounts.associations[c].user]
        users = [user for user in users if user != "root"]
        cap = _capped(cap, one.limits.grp_tres)
        name = object_name(one.account)
        queued = bool(users) or (not below and one is not root)
        if below:
            objects.append(_cohort(f"{name}-accounts", cohort, one, made, site))
        shares = [(b, _shares(b, one)) for b in below]
        own = sum(_shares(accounts.associations[c], one) for c in one.children if accounts.associations[c].user
                  and accounts.associations[c].user != "root")  # fmt: skip
        total = sum(s for _, s in shares) + (own if below else 0) or 1
        if queued:
            mine = part * own / total if below else part
            home = f"{name}-accounts" if below else cohort
            quota = _quota(made.kinds, mine, cap, given)
            objects.append(_cluster_queue(name, home, one, quota, cap, preemption, strategy, made))
            tail.extend(_namespace(one.account, users))
            tail.extend(_local_queues(one.account, cluster))
        for child, share in shares:
            walk(child, part * share / total, f"{name}-accounts", cap)

    if len(accounts.associations) <= 2:
        everyone = Association(0, "default")
        quota = _quota(made.kinds, 1.0, {}, given)
        objects.append(_cluster_queue("default", "", everyone, quota, {}, preemption, strategy, made))
        return [*objects, *_local_queues("default", cluster)]
    walk(root, 1.0, "", {})
    _leave_rest(objects, made.kinds, given)
    why = "shares are weights among queues of a cohort: Kueue looks at them only when told to"
    do = "Set fairSharing: {} in Kueue's Configuration; idle quota is lent either way"
    made.notes.append(Note(site.accounts_file or "sacctmgr", 0, CHANGED, "Fairshare", why, do))
    return [*objects, *tail]


def _shares(one: Association, above: Association) -> int:
    return max(1 if one.shares == FAIRSHARE_PARENT else one.shares, 0)


def _capped(cap: dict[str, int], limit: dict[str, int]) -> dict[str, int]:
    """GrpTRES in base units of resources, under those of the accounts above."""
    found = dict(cap)
    for name, count in limit.items():
        resource, unit = {"cpu": ("cpu", 1), "mem": ("memory", MIB), "gres/gpu": (GPU, 1)}.get(name, ("", 0))
        if resource:
            found[resource] = min(found.get(resource, count * unit), count * unit)
    return found


def _resources(kinds: list[Kind]) -> list[str]:
    return list(
        dict.fromkeys(name for kind in kinds for name in kind.capacity if name != "ephemeral-storage")
    )


def _quota(
    kinds: list[Kind], part: float, cap: dict[str, int], given: dict[tuple[str, str], int]
) -> dict[tuple[str, str], int]:
    """(kind, resource) → its part of all nodes, rounded down; not over a limit of the account."""
    found: dict[tuple[str, str], int] = {}
    left = dict(cap)
    for kind in kinds:
        for resource in _resources(kinds):
            whole = kind.capacity.get(resource, 0) * len(kind.nodes)
            mine = int(whole * part + 1e-9)
            if resource == "memory":
                mine -= mine % MIB
            if resource in left:
                mine = min(mine, left[resource])
                left[resource] -= mine
            found[kind.name, resource] = mine
            given[kind.name, resource] = given.get((kind.name, resource), 0) + mine
    return found


def _leave_rest(objects: list[Obj], kinds: list[Kind], given: dict[tuple[str, str], int]) -> None:
    """What rounding left over is the root Cohort's, for anybody to borrow."""
    rest = {
        (kind.name, resource): kind.capacity.get(resource, 0) * len(kind.nodes)
        - given.get((kind.name, resource), 0)
        for kind in kinds
        for resource in _resources(kinds)
    }
    if any(rest.values()) and objects and objects[0]["kind"] == "Cohort":
        objects[0]["spec"]["resourceGroups"] = [_group(kinds, rest, {})]


def _group(kinds: list[Kind], quota: dict[tuple[str, str], int], cap: dict[str, int]) -> dict[str, Any]:
    resources = _resources(kinds)
    flavors = []
    for kind in kinds:
        entries: list[dict[str, Any]] = []
        for resource in resources:
            mine = quota.get((kind.name, resource), 0)
            entry: dict[str, Any] = {"name": resource, "nominalQuota": amount_text(resource, mine)}
            if resource in cap:
                total = sum(quota.get((k.name, resource), 0) for k in kinds)
                entry["borrowingLimit"] = amount_text(resource, max(cap[resource] - total, 0))
            entries.append(entry)
        flavors.append({"name": kind.name, "resources": entries})
    return {"coveredResources": resources, "flavors": flavors}


def _cohort(name: str, parent: str, one: Association, made: ConvertedSite, site: SiteFolder) -> Obj:
    spec: dict[str, Any] = {}
    if parent:
        spec["parentName"] = parent
        spec["fairSharing"] = {"weight": str(_shares(one, one))}
    if one.limits.grp_tres:
        why = "a limit on all accounts below one is no quota of its Cohort: each account has it for itself"
        do = "Set nominalQuota and borrowingLimit of the Cohort"
        text = f"Account {one.account} GrpTRES"
        made.notes.append(Note(site.accounts_file, 0, CHANGED, text, why, do))
    return {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def _cluster_queue(
    name: str,
    cohort: str,
    one: Association,
    quota: dict[tuple[str, str], int],
    cap: dict[str, int],
    preemption: dict[str, Any],
    strategy: str,
    made: ConvertedSite,
) -> Obj:
    spec: dict[str, Any] = {}
    if cohort:
        spec["cohort"] = cohort
    spec |= {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "queueingStrategy": strategy,
        "resourceGroups": [_group(made.kinds, quota, cap if cohort else {})],
        "preemption": preemption,
    }
    if cohort:
        spec["fairSharing"] = {"weight": str(_shares(one, one))}
    return {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def _preemption(site: SiteFolder) -> dict[str, Any]:
    kind = site.conf.get("PreemptType", "preempt/none")
    word = "Never" if kind == "preempt/none" else "LowerPriority"
    return {"withinClusterQueue": word, "reclaimWithinCohort": word}


def _namespace(account: str, users: list[str]) -> list[Obj]:
    """The account's home, and a role in it for its users."""
    name = object_name(account)
    made: list[Obj] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}]
    subjects = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"} for user in users]
    if subjects:
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "slurm-users", "namespace": name},
            "subjects": subjects,
            "roleRef": role,
        }
        made.append(binding)
    return made


def _local_queues(account: str, cluster: Cluster) -> list[Obj]:
    name = object_name(account)
    found: list[Obj] = []
    for part in cluster.partitions.values():
        if not _may_use(part, account):
            continue
        spec: dict[str, Any] = {"clusterQueue": name}
        if part.state in ("DOWN", "INACTIVE", "DRAIN"):
            spec["stopPolicy"] = "Hold"
        found.append(_local_queue(object_name(part.name), name, spec))
    return found


def _may_use(part: Partition, account: str) -> bool:
    if part.allow_accounts is not None:
        return account in part.allow_accounts
    return account not in part.deny_accounts


def _local_queue(name: str, namespace: str, spec: dict[str, Any]) -> Obj:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": meta, "spec": spec}
