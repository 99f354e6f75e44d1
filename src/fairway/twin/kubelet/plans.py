"""What does a pod's spec ask of a kubelet? Typed facts, worked out once per template and shared.

Pods stamped from one template share their `containers` list, which finds their plan by identity; equal specs
from elsewhere find it by their bytes. Plans are immutable, so forks share the cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway.kube.objects import Obj, meta_of
from fairway.kube.podrequests import pod_requests
from fairway.kube.resources import GPU_MILLI, NVIDIA_GPU
from fairway.kube.timestamps import SECOND_US
from fairway.twin.behaviour import ALIASES, Behaviour, BehaviourError, Said, behaviour_of, said
from fairway.twin.commands import understand
from fairway.twin.kubelet.probes import LIVENESS, READINESS, STARTUP, Probe, parse_probe
from fairway.twin.kubelet.references import Reference, variables_of

ALWAYS, ON_FAILURE, NEVER = "Always", "OnFailure", "Never"
DEFAULT_GRACE_S: Final = 30
_CACHED_TEMPLATES: Final = 4096
_CACHED_PLANS: Final = 65_536


@dataclass(frozen=True, slots=True)
class RestartRule:
    """A container's restart rule on exit codes (KEP-5307): `negated` for NotIn."""

    codes: tuple[int, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One container. `restarts` is its own restart policy, or the pod's; `part` where it stands in the pod."""

    name: str
    part: str
    image: str
    always_pulls: bool
    never_pulls: bool
    is_init: bool
    is_sidecar: bool
    restarts: str
    rules: tuple[RestartRule, ...]
    startup: Probe | None
    readiness: Probe | None
    liveness: Probe | None
    pre_stop_us: int
    variables: tuple[Reference, ...]
    """What its environment is taken from."""
    resources: str
    """What it asks for, as JSON; empty for nothing."""

    def restarts_after(self, exit_code: int) -> bool:
        """Source: podutil.ContainerShouldRestart: rules first, then the policy."""
        for rule in self.rules:
            if (exit_code in rule.codes) != rule.negated:
                return True
        if self.restarts == NEVER:
            return False
        return self.restarts == ALWAYS or exit_code != 0


class PodPlan:
    """A pod: its init containers first, then the others, in one tuple; `behaviours` in the same order.

    Not changed once it is made. No dataclass: also where they are compiled, interpreted code makes those, and every
    pod whose annotations are its own has a plan.
    """

    def __init__(
        self,
        containers: tuple[ContainerPlan, ...],
        behaviours: tuple[Behaviour, ...],
        problem: BehaviourError | None = None,
        *,
        init_count: int,
        requests: tuple[tuple[str, int], ...],
        deadline_us: int | None,
        grace_us: int,
        host_network: bool,
        readiness_gates: tuple[str, ...],
        is_plain: bool,
        gpu_milli: int,
    ) -> None:
        self.containers = containers
        self.behaviours = behaviours
        self.problem = problem
        self.init_count = init_count
        self.requests = requests
        self.deadline_us = deadline_us
        self.grace_us = grace_us
        self.host_network = host_network
        self.readiness_gates = readiness_gates
        self.is_plain = is_plain
        """One container, no probes, no init, no gates: what most batch pods are."""
        self.gpu_milli = gpu_milli
        """Whole and shared GPUs the pod asks for; its first main container does the work of them."""

    def gpu_milli_of(self, container: int) -> int:
        return self.gpu_milli if container == self.init_count else 0

    def behaving(self, behaviours: tuple[Behaviour, ...], problem: BehaviourError | None) -> PodPlan:
        """The same pod where annotations ask for another behaviour of its containers."""
        return PodPlan(
            self.containers,
            behaviours,
            problem,
            init_count=self.init_count,
            requests=self.requests,
            deadline_us=self.deadline_us,
            grace_us=self.grace_us,
            host_network=self.host_network,
            readiness_gates=self.readiness_gates,
            is_plain=self.is_plain,
            gpu_milli=self.gpu_milli,
        )


class Plans:
    """The cache of plans."""

    def __init__(self, aliases: Mapping[str, str] = ALIASES) -> None:
        self.aliases = aliases
        self._by_template: dict[tuple[Any, ...], tuple[Any, Any, PodPlan]] = {}
        self._by_bytes: dict[bytes, PodPlan] = {}
        self._annotated: dict[tuple[PodPlan, Said], PodPlan] = {}

    def of(self, pod: Obj) -> PodPlan:
        """O(1) for a template or an equal spec seen before; what annotations say is read once per set of them."""
        spec = pod["spec"]
        plan = self._of_spec(spec)
        annotations = meta_of(pod).get("annotations")
        words: Said = said(annotations, self.aliases) if annotations else ()
        if not words:
            return plan
        at = (plan, words)
        found = self._annotated.get(at)
        if found is None:
            if len(self._annotated) >= _CACHED_TEMPLATES:
                self._annotated.clear()
            found = self._annotated[at] = annotated(plan, spec, words)
        return found

    def _of_spec(self, spec: dict[str, Any]) -> PodPlan:
        containers, inits = spec.get("containers"), spec.get("initContainers")
        if (
            spec.get("resources")
            or spec.get("overhead")
            or spec.get("readinessGates")
            or spec.get("hostNetwork")
        ):
            # Rare: looked up by its bytes alone.
            return self._by_content(spec)
        at = (
            id(containers),
            id(inits),
            spec.get("restartPolicy"),
            spec.get("terminationGracePeriodSeconds"),
            spec.get("activeDeadlineSeconds"),
        )
        known = self._by_template.get(at)
        # The lists are kept alive by the cache, so an id cannot have been reused.
        if known is not None and known[0] is containers and known[1] is inits:
            return known[2]
        plan = self._by_content(spec)
        if len(self._by_template) >= _CACHED_TEMPLATES:
            self._by_template.clear()
        self._by_template[at] = (containers, inits, plan)
        return plan

    def _by_content(self, spec: dict[str, Any]) -> PodPlan:
        key = msgspec.json.encode([spec.get(field) for field in _RELEVANT])
        plan = self._by_bytes.get(key)
        if plan is None:
            if len(self._by_bytes) >= _CACHED_PLANS:
                self._by_bytes.clear()
            plan = self._by_bytes[key] = plan_of(spec)
        return plan


_RELEVANT: Final = (
    "containers",
    "initContainers",
    "restartPolicy",
    "terminationGracePeriodSeconds",
    "activeDeadlineSeconds",
    "resources",
    "overhead",
    "readinessGates",
    "hostNetwork",
)


def plan_of(spec: dict[str, Any]) -> PodPlan:
    """Work a plan out; annotations aside."""
    policy = spec.get("restartPolicy") or ALWAYS
    plans, behaviours = [], []
    inits = spec.get("initContainers") or ()
    for i, container in enumerate((*inits, *(spec.get("containers") or ()))):
        is_init = i < len(inits)
        is_sidecar = is_init and container.get("restartPolicy") == ALWAYS
        own_policy = container.get("restartPolicy") or (
            ON_FAILURE if is_init and policy == ALWAYS else policy
        )
        plans.append(_container(container, own_policy, is_init=is_init, is_sidecar=is_sidecar))
        behaviours.append(behaviour_of(container, own_policy, (), is_init=is_init))
    deadline = spec.get("activeDeadlineSeconds")
    grace = spec.get("terminationGracePeriodSeconds")
    gates = tuple(g.get("conditionType", "") for g in spec.get("readinessGates") or ())
    requests = pod_requests(spec)
    return PodPlan(
        tuple(plans),
        tuple(behaviours),
        init_count=len(inits),
        requests=tuple(sorted(requests.items(), key=_admission_order)),
        deadline_us=None if deadline is None else int(deadline) * SECOND_US,
        grace_us=(DEFAULT_GRACE_S if grace is None else int(grace)) * SECOND_US,
        host_network=bool(spec.get("hostNetwork")),
        readiness_gates=gates,
        is_plain=len(plans) == 1 and not gates and not _is_probed(plans[0]),
        gpu_milli=1000 * requests.get(NVIDIA_GPU, 0) + requests.get(GPU_MILLI, 0),
    )


def _is_probed(container: ContainerPlan) -> bool:
    return bool(container.startup or container.readiness or container.liveness)


def annotated(plan: PodPlan, spec: dict[str, Any], words: Said) -> PodPlan:
    """The plan with what annotations say of behaviour. Those that make no sense leave a container its default and
    are named in `problem`."""
    problem: BehaviourError | None = None
    behaviours = []
    raw = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    for i, container in enumerate(raw):
        of = plan.containers[i]
        try:
            behaviours.append(behaviour_of(container, of.restarts, words, is_init=of.is_init))
        except BehaviourError as wrong:
            problem = wrong
            behaviours.append(plan.behaviours[i])
    return plan.behaving(tuple(behaviours), problem)


def _admission_order(request: tuple[str, int]) -> tuple[int, str]:
    """cpu, memory, ephemeral-storage, then the others by name: the order in which a lack is reported."""
    order = ("cpu", "memory", "ephemeral-storage")
    name = request[0]
    return (order.index(name) if name in order else len(order), name)


def _container(raw: Mapping[str, Any], policy: str, *, is_init: bool, is_sidecar: bool) -> ContainerPlan:
    image = str(raw.get("image") or "")
    pull = raw.get("imagePullPolicy") or default_pull_policy(image)
    probed = not is_init or is_sidecar
    name = str(raw.get("name") or "")
    return ContainerPlan(
        name=name,
        part=f"spec.{'initContainers' if is_init else 'containers'}{{{name}}}",
        image=image,
        always_pulls=pull == "Always",
        never_pulls=pull == "Never",
        is_init=is_init,
        is_sidecar=is_sidecar,
        restarts=policy,
        rules=_rules(raw),
        startup=parse_probe(STARTUP, raw.get("startupProbe")) if probed else None,
        readiness=parse_probe(READINESS, raw.get("readinessProbe")) if probed else None,
        liveness=parse_probe(LIVENESS, raw.get("livenessProbe")) if probed else None,
        pre_stop_us=_pre_stop_us((raw.get("lifecycle") or {}).get("preStop")),
        variables=variables_of(raw),
        resources=msgspec.json.encode(raw["resources"]).decode() if raw.get("resources") else "",
    )


def default_pull_policy(image: str) -> str:
    """Always for `:latest` or no tag, else IfNotPresent. Source: defaults.go SetDefaults_Container."""
    name = image.partition("@")[0]
    if "@" in image:
        return "IfNotPresent"
    _, colon, tag = name.rpartition("/")[2].partition(":")
    return "Always" if not colon or tag == "latest" else "IfNotPresent"


def _rules(raw: Mapping[str, Any]) -> tuple[RestartRule, ...]:
    rules = []
    for rule in raw.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        if rule.get("action") == "Restart":
            values = tuple(int(v) for v in codes.get("values") or ())
            rules.append(RestartRule(values, codes.get("operator") == "NotIn"))
    return tuple(rules)


def _pre_stop_us(hook: Mapping[str, Any] | None) -> int:
    """How long a preStop hook takes: `sleep` as it says, `exec` if its command is understood, else no time."""
    if not hook:
        return 0
    if hook.get("sleep"):
        return int(hook["sleep"].get("seconds") or 0) * SECOND_US
    run = understand(tuple(str(w) for w in (hook.get("exec") or {}).get("command") or ()))
    if run is None:
        return 0
    return 2**62 if run.run_us is None else run.run_us
