"""KubeSchedulerConfiguration files: what they make of a profile, and what is said of those that are wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from judging import judge

from builders import GPU, ZONE, node, pod
from fairway.errors import InvalidInput
from fairway.kube.manifest import Manifest, read_text
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.config import (
    SchedulerConfiguration,
    read_configuration,
    read_configuration_file,
    read_profiles,
)
from fairway.scheduling.extenders import Extender
from fairway.scheduling.profile import (
    DEFAULT_PROFILE,
    DEFAULT_WEIGHTS,
    GPU_POLICIES,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    Profile,
)

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def read(body: str) -> SchedulerConfiguration:
    return read_configuration(read_text(HEAD + body, "scheduler.yaml")[0])


def profile(body: str) -> Profile:
    """The only profile; `body` is indented below it."""
    lines = "\n".join(f"  {line}" for line in body.splitlines())
    return read("profiles:\n- schedulerName: default-scheduler\n" + lines).profiles[0]


def args(plugin: str, body: str) -> Profile:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return profile(f"pluginConfig:\n- name: {plugin}\n  args:\n{lines}")


def test_an_empty_file_is_the_default() -> None:
    found = read("")
    assert found.profiles == (DEFAULT_PROFILE,)
    assert (found.initial_backoff_us, found.max_backoff_us) == (SECOND_US, 10 * SECOND_US)
    assert (found.client_qps, found.client_burst) == (50, 100)


def test_the_default_is_kube_schedulers() -> None:
    """Source: pkg/scheduler/apis/config/v1/default_plugins.go, defaults.go; podtopologyspread/plugin.go."""
    found = DEFAULT_PROFILE
    assert found.weights == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert [(c.topology_key, c.max_skew, c.min_domains, c.is_hard) for c in found.default_spread] == [
        ("kubernetes.io/hostname", 3, 1, False),
        (ZONE, 5, 1, False),
    ]
    assert all(c.honors_affinity and not c.honors_taints for c in found.default_spread)
    preemption = found.preemption
    assert preemption.min_candidate_nodes_percentage == 10
    assert preemption.min_candidate_nodes_absolute == 100
    assert (found.hard_pod_affinity_weight, found.percentage_of_nodes_to_score) == (1, 0)
    assert not (found.ignores_preferred_terms_of_existing_pods or found.permits or found.extenders)
    assert found.preempts and found.has_dynamic_resources and found.is_spread_system_defaulted
    assert (found.fit.kind, found.fit.resources) == ("LeastAllocated", (("cpu", 1), ("memory", 1)))
    assert found.balanced_resources == ("cpu", "memory")


def test_an_empty_profile_is_the_default_but_for_what_has_no_effect() -> None:
    found = profile("plugins: {}")
    assert found.filters == DEFAULT_PROFILE.filters
    assert {n: found.weight(n) for n in DEFAULT_WEIGHTS} == DEFAULT_WEIGHTS
    assert found.preempts
    assert found.has_dynamic_resources


@dataclass
class Case:
    """`see` says what the profile must show."""

    body: str
    see: Callable[[Profile], bool]


PLUGINS = {
    "a filter off at multiPoint": Case(
        "plugins:\n  multiPoint:\n    disabled: [{name: NodePorts}]",
        lambda p: not p.filters_with("NodePorts"),
    ),
    "a filter off at filter": Case(
        "plugins:\n  filter:\n    disabled: [{name: TaintToleration}]",
        lambda p: not p.filters_with("TaintToleration") and p.weight("TaintToleration") == 3,
    ),
    "a score off": Case(
        "plugins:\n  score:\n    disabled: [{name: NodeResourcesFit}]",
        lambda p: p.weight("NodeResourcesFit") == 0 and p.filters_with("NodeResourcesFit"),
    ),
    "all scores off but one": Case(
        "plugins:\n  score:\n    disabled: [{name: '*'}]\n    enabled: [{name: ImageLocality, weight: 5}]",
        lambda p: p.weights == {"ImageLocality": 5},
    ),
    "a weight at score": Case(
        "plugins:\n  score:\n    enabled: [{name: NodeAffinity, weight: 7}]",
        lambda p: p.weight("NodeAffinity") == 7 and p.weight("TaintToleration") == 3,
    ),
    "a weight at multiPoint": Case(
        "plugins:\n  multiPoint:\n    enabled: [{name: NodeAffinity, weight: 7}]",
        lambda p: p.weight("NodeAffinity") == 7,
    ),
    "score goes before multiPoint": Case(
        "plugins:\n  multiPoint:\n    enabled: [{name: NodeAffinity, weight: 7}]\n"
        "  score:\n    enabled: [{name: NodeAffinity, weight: 9}]",
        lambda p: p.weight("NodeAffinity") == 9,
    ),
    "no weight is one": Case(
        "plugins:\n  score:\n    enabled: [{name: NodeAffinity}]", lambda p: p.weight("NodeAffinity") == 1
    ),
    "multiPoint from nothing": Case(
        "plugins:\n  multiPoint:\n    disabled: [{name: '*'}]\n"
        "    enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: NodeName}]",
        lambda p: p.filters == frozenset({"NodeName", "GpuShare"}) and not p.weights and not p.preempts,
    ),
    "the share of GPUs is off by name only": Case(
        "plugins:\n  filter:\n    disabled: [{name: GpuShare}]", lambda p: not p.filters_with("GpuShare")
    ),
    "no preemption": Case(
        "plugins:\n  postFilter:\n    disabled: [{name: DefaultPreemption}]",
        lambda p: not p.preempts and p.has_dynamic_resources,
    ),
    "no resource claims": Case(
        "plugins:\n  multiPoint:\n    disabled: [{name: DynamicResources}]",
        lambda p: p.preempts and not p.has_dynamic_resources,
    ),
    "a placement policy as a score": Case(
        "plugins:\n  score:\n    enabled: [{name: FGD, weight: 100}]", lambda p: p.weight("FGD") == 100
    ),
}

ARGS = {
    "fit: most allocated with devices": Case(
        "pluginConfig:\n- name: NodeResourcesFit\n  args:\n    scoringStrategy:\n      type: MostAllocated\n"
        "      resources: [{name: nvidia.com/gpu, weight: 5}, {name: cpu}]",
        lambda p: p.fit.kind == MOST_ALLOCATED and p.fit.resources == ((GPU, 5), ("cpu", 1)),
    ),
    "fit: a strategy without resources has cpu and memory": Case(
        "pluginConfig:\n- name: NodeResourcesFit\n  args:\n    scoringStrategy: {type: MostAllocated}",
        lambda p: p.fit.resources == (("cpu", 1), ("memory", 1)),
    ),
    "fit: ratio": Case(
        "pluginConfig:\n- name: NodeResourcesFit\n  args:\n    scoringStrategy:\n"
        "      type: RequestedToCapacityRatio\n      requestedToCapacityRatio:\n"
        "        shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]",
        lambda p: p.fit.kind == REQUESTED_TO_CAPACITY_RATIO and p.fit.shape == ((0, 0), (100, 10)),
    ),
    "fit: ignored resources and groups": Case(
        "pluginConfig:\n- name: NodeResourcesFit\n  args:\n    ignoredResources: [example.com/foo]\n"
        "    ignoredResourceGroups: [vendor.io]",
        lambda p: p.ignores("example.com/foo") and p.ignores("vendor.io/x") and not p.ignores(GPU),
    ),
    "balance over three": Case(
        "pluginConfig:\n- name: NodeResourcesBalancedAllocation\n  args:\n"
        "    resources: [{name: cpu}, {name: memory, weight: 1}, {name: nvidia.com/gpu}]",
        lambda p: p.balanced_resources == ("cpu", "memory", GPU),
    ),
    "pod affinity": Case(
        "pluginConfig:\n- name: InterPodAffinity\n  args:\n    hardPodAffinityWeight: 0\n"
        "    ignorePreferredTermsOfExistingPods: true",
        lambda p: p.hard_pod_affinity_weight == 0 and p.ignores_preferred_terms_of_existing_pods,
    ),
    "spread: a list": Case(
        "pluginConfig:\n- name: PodTopologySpread\n  args:\n    defaultingType: List\n"
        "    defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
        lambda p: (
            [(c.max_skew, c.topology_key, c.is_hard) for c in p.default_spread] == [(2, "zone", True)]
            and not p.is_spread_system_defaulted
        ),
    ),
    "spread: an empty list is none": Case(
        "pluginConfig:\n- name: PodTopologySpread\n  args: {defaultingType: List}",
        lambda p: p.default_spread == (),
    ),
    "spread: the system's": Case(
        "pluginConfig:\n- name: PodTopologySpread\n  args: {defaultingType: System}",
        lambda p: p.default_spread == DEFAULT_PROFILE.default_spread,
    ),
    "preemption": Case(
        "pluginConfig:\n- name: DefaultPreemption\n"
        "  args: {minCandidateNodesPercentage: 5, minCandidateNodesAbsolute: 7}",
        lambda p: (
            (p.preemption.min_candidate_nodes_percentage, p.preemption.min_candidate_nodes_absolute) == (5, 7)
        ),
    ),
    "arguments may say what they are": Case(
        "pluginConfig:\n- name: InterPodAffinity\n  args:\n    apiVersion: kubescheduler.config.k8s.io/v1\n"
        "    kind: InterPodAffinityArgs\n    hardPodAffinityWeight: 3",
        lambda p: p.hard_pod_affinity_weight == 3,
    ),
    "volumes and claims are accepted": Case(
        "pluginConfig:\n- name: VolumeBinding\n  args: {bindTimeoutSeconds: 60}\n"
        "- name: DynamicResources\n  args: {filterTimeout: 10s}",
        lambda p: p.weights == {**DEFAULT_WEIGHTS, **p.weights},
    ),
    "percentage of nodes": Case(
        "percentageOfNodesToScore: 30", lambda p: p.percentage_of_nodes_to_score == 30
    ),
}


@pytest.mark.parametrize("name", [*PLUGINS, *ARGS])
def test_reads(name: str) -> None:
    case = {**PLUGINS, **ARGS}[name]
    found = profile(case.body)
    assert case.see(found), found


def test_every_placement_policy_has_a_name_here() -> None:
    from fairway.scheduling.gpushare.policies import POLICIES

    assert sorted(GPU_POLICIES) == sorted(POLICIES)


def test_added_affinity_is_enforced_and_preferred() -> None:
    found = args(
        "NodeAffinity",
        "addedAffinity:\n"
        "  requiredDuringSchedulingIgnoredDuringExecution:\n"
        "    nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]\n"
        "  preferredDuringSchedulingIgnoredDuringExecution:\n"
        "  - {weight: 5, preference: {matchExpressions: [{key: disk, operator: In, values: [ssd]}]}}",
    )
    nodes = [node("n1").label(pool="a"), node("n2"), node("n3").label(pool="b", disk="ssd")]
    seen = judge(nodes, pod("p"), profile=found)
    assert seen.feasible == ["n1", "n3"]
    assert seen.parts["NodeAffinity"] == {"n1": 0, "n3": 200}
    refused = judge([node("n2")], pod("p"), profile=found)
    assert refused.message.startswith(
        "0/1 nodes are available: 1 node(s) didn't match scheduler-enforced node affinity."
    )


def test_default_constraints_that_refuse() -> None:
    found = args(
        "PodTopologySpread",
        "defaultingType: List\n"
        f"defaultConstraints: [{{maxSkew: 1, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule}}]",
    )
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}},
    }
    nodes = [node("n1").zone("a"), node("n2").zone("b")]
    running = {"n1": [pod("a").label(app="web")]}
    web = pod("p").label(app="web")
    assert judge(nodes, web, running, profile=found, others=[service]).feasible == ["n2"]
    assert judge(nodes, pod("p"), running, profile=found, others=[service]).feasible == ["n1", "n2"]


def test_ignored_resources_are_not_checked() -> None:
    found = args("NodeResourcesFit", "ignoredResources: [example.com/foo]")
    assert judge([node("n1")], pod("p").limit("example.com/foo", 1), profile=found).feasible == ["n1"]


def test_ports_are_checked_without_resources() -> None:
    found = profile("plugins:\n  filter:\n    disabled: [{name: NodeResourcesFit}]")
    running = {"n1": [pod("a").port(80)]}
    assert judge([node("n1").cpu(1)], pod("p").cpu(9), running, profile=found).feasible == ["n1"]
    assert judge([node("n1")], pod("p").port(80), running, profile=found).feasible == []


def test_without_scores_the_first_that_fits_is_taken() -> None:
    found = profile("plugins:\n  score:\n    disabled: [{name: '*'}]")
    placed = judge([node("n1").cordoned(), node("n2"), node("n3")], pod("p"), profile=found).placed
    assert placed is not None
    assert (placed.node, placed.feasible, placed.evaluated) == ("n2", 1, 2)


def test_profiles_have_names_of_their_own_and_share_the_percentage() -> None:
    found = read(
        "percentageOfNodesToScore: 20\nprofiles:\n- schedulerName: a\n"
        "- schedulerName: b\n  percentageOfNodesToScore: 70\n"
    )
    assert [(p.scheduler_name, p.percentage_of_nodes_to_score) for p in found.profiles] == [
        ("a", 20),
        ("b", 70),
    ]


def test_one_profile_needs_no_name() -> None:
    assert read("profiles:\n- plugins: {}\n").profiles[0].scheduler_name == "default-scheduler"


def test_settings() -> None:
    found = read(
        "podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 20\nparallelism: 4\n"
        "clientConnection: {qps: 99.5, burst: 7}\nleaderElection: {leaderElect: false}\n"
    )
    assert (found.initial_backoff_us, found.max_backoff_us) == (2 * SECOND_US, 20 * SECOND_US)
    assert (found.client_qps, found.client_burst) == (100, 7)


# Wrong files

WRONG = {
    "unknown field": ("percentageOfNodes: 1\n", "3: percentageOfNodes: 1: unknown field"),
    "percentage out of range": (
        "percentageOfNodesToScore: 101\n",
        "3: percentageOfNodesToScore: 101: not in valid range [0-100]",
    ),
    "no backoff": ("podInitialBackoffSeconds: 0\n", "podInitialBackoffSeconds: 0: must be greater than 0"),
    "backoffs crossed": (
        "podInitialBackoffSeconds: 20\npodMaxBackoffSeconds: 15\n",
        "4: podMaxBackoffSeconds: 15: must be greater than or equal to PodInitialBackoffSeconds",
    ),
    "parallelism": ("parallelism: 0\n", "parallelism: 0: should be an integer value greater than zero"),
    "a wrong type": ("percentageOfNodesToScore: many\n", '"many": expected a whole number'),
    "profiles not a list": ("profiles: {}\n", "profiles: {}: expected a list"),
    "two profiles, no names": (
        "profiles:\n- {}\n- schedulerName: b\n",
        "profiles[0].schedulerName: Required value",
    ),
    "two of a name": (
        "profiles:\n- schedulerName: a\n- schedulerName: a\n",
        '5: profiles[1].schedulerName: "a": Duplicate value',
    ),
    "an extender without a weight": (
        "extenders: [{urlPrefix: http://x, prioritizeVerb: p}]\n",
        "must have a positive weight applied to it",
    ),
    "an extender of a plain resource": (
        "extenders: [{urlPrefix: http://x, managedResources: [{name: cpu}]}]\n",
        "must be an extended resource name",
    ),
    "an extender without an address": (
        "extenders: [{filterVerb: f}]\n",
        "3: extenders[0].urlPrefix: Required value",
    ),
    "an extender that is no address": (
        "extenders: [{urlPrefix: ftp://x}]\n",
        "expected an address that begins with http:// or https://",
    ),
    "a weight of nothing": (
        "extenders: [{urlPrefix: http://x, prioritizeVerb: p, weight: 0}]\n",
        "must have a positive weight applied to it",
    ),
    "an extender with a certificate": (
        "extenders: [{urlPrefix: http://x, tlsConfig: {certFile: c}}]\n",
        "client certificates and inline authorities are not read: expected caFile",
    ),
    "an extender's resource that is no name": (
        "extenders: [{urlPrefix: http://x, managedResources: [{name: a/b/c}]}]\n",
        "managedResources[0].name",
    ),
    "a resource of two extenders": (
        "extenders:\n- {urlPrefix: http://x, managedResources: [{name: a.io/b}]}\n"
        "- {urlPrefix: http://y, managedResources: [{name: a.io/b}]}\n",
        "duplicate extender managed resource name",
    ),
    "too many extenders": (
        f"extenders: [{', '.join(['{urlPrefix: http://x}'] * 65)}]\n",
        "expected at most 64 extenders, found 65",
    ),
    "two extenders that bind": (
        "extenders: [{urlPrefix: http://x, bindVerb: b}, {urlPrefix: http://y, bindVerb: b}]\n",
        "only one extender can implement bind",
    ),
}

WRONG_PROFILE = {
    "no such plugin": (
        "plugins:\n  score:\n    enabled: [{name: NodeResourceFit}]",
        'profiles[0].plugins.score.enabled[0].name: "NodeResourceFit": plugin "NodeResourceFit" does not exist',
    ),
    "a plugin where it cannot stand": (
        "plugins:\n  filter:\n    enabled: [{name: ImageLocality}]",
        'plugin "ImageLocality" does not extend FilterPlugin plugin',
    ),
    "a plugin twice": (
        "plugins:\n  score:\n    enabled: [{name: ImageLocality}, {name: ImageLocality}]",
        'plugin "ImageLocality" already registered as "ScorePlugin"',
    ),
    "a plugin long gone": (
        "plugins:\n  filter:\n    enabled: [{name: EBSLimits}]",
        '"EBSLimits": was invalid in version "kubescheduler.config.k8s.io/v1"',
    ),
    "no queue sort": (
        "plugins:\n  queueSort:\n    disabled: [{name: '*'}]",
        'only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0',
    ),
    "no bind": (
        "plugins:\n  bind:\n    disabled: [{name: DefaultBinder}]",
        "at least one bind plugin is needed for profile",
    ),
    "no such extension point": ("plugins:\n  scores: {}", "profiles[0].plugins.scores: {}: unknown field"),
    "turning off what there is not": (
        "plugins:\n  score:\n    disabled: [{name: Fit}]",
        'plugin "Fit" does not exist: expected one of',
    ),
    "a plugin without a name": (
        "plugins:\n  score:\n    enabled: [{weight: 1}]",
        "profiles[0].plugins.score.enabled[0].name: Required value",
    ),
    "a plugin's name that is no text": (
        "plugins:\n  score:\n    enabled: [{name: 3}]",
        "enabled[0].name: 3",
    ),
    "weights without end": (
        "plugins:\n  score:\n    enabled:\n"
        + "".join(f"    - {{name: {n}, weight: 2147483647}}\n" for n in ("ImageLocality", "NodeAffinity"))
        + "    - {name: NodeResourcesFit, weight: 2147483648}",
        "expected a whole number from -2147483648 to 2147483647",
    ),
    "config of no plugin": ("pluginConfig:\n- name: Fit", 'plugin "Fit" does not exist'),
    "config twice": (
        "pluginConfig:\n- name: InterPodAffinity\n- name: InterPodAffinity",
        "repeated config for plugin InterPodAffinity",
    ),
}

_WITH_FILTERS = (
    "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone"
)
_WITH_SCORES = (
    "NodeAffinity NodeResourcesFit VolumeBinding PodTopologySpread InterPodAffinity DynamicResources"
)
_AT = {
    # point: upstream's name of it, and who implements that
    "preEnqueue": ("PreEnqueue", "SchedulingGates DynamicResources DefaultPreemption GangScheduling"),
    "queueSort": ("QueueSort", "PrioritySort Coscheduling"),
    "preFilter": (
        "PreFilter",
        f"{_WITH_FILTERS} PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures Coscheduling",
    ),
    "filter": (
        "Filter",
        f"{_WITH_FILTERS} PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures "
        "NodeUnschedulable NodeName TaintToleration GpuShare",
    ),
    "postFilter": ("PostFilter", "DynamicResources DefaultPreemption Coscheduling"),
    "preScore": ("PreScore", f"{_WITH_SCORES} TaintToleration NodeResourcesBalancedAllocation"),
    "score": (
        "Score",
        f"{_WITH_SCORES} TaintToleration NodeResourcesBalancedAllocation ImageLocality {' '.join(GPU_POLICIES)}",
    ),
    "reserve": ("Reserve", "VolumeBinding DynamicResources GangScheduling Coscheduling"),
    "permit": ("Permit", "GangScheduling Coscheduling"),
    "preBind": ("PreBind", "VolumeBinding DynamicResources"),
    "bind": ("Bind", "DefaultBinder"),
    "postBind": ("PostBind", ""),
    "placementGenerate": ("PlacementGenerate", "TopologyPlacementGenerator"),
    "placementScore": ("PlacementScore", "NodeResourcesFit PodGroupPodsCount"),
}


@pytest.mark.parametrize("point", _AT)
def test_where_each_plugin_may_stand(point: str) -> None:
    """Source: the plugins' interface assertions; framework.go updatePluginList."""
    called, there = _AT[point]
    everybody = {name for _, names in _AT.values() for name in names.split()}
    assert len(everybody) == 25 + len(GPU_POLICIES)
    for name in sorted(everybody):
        wrong = f'plugin "{name}" does not extend {called}Plugin plugin'
        enabled = [{"name": name}, {"name": name}]
        body = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {point: {"enabled": enabled}}}],
        }
        with pytest.raises(InvalidInput) as refused:
            read_profiles(Manifest(body, "f"))
        said = [
            p.expected for p in refused.value.problems if not p.expected.startswith("only one queue sort")
        ]
        again = f'plugin "{name}" already registered as "{called}Plugin"'
        assert said == ([again] if name in there.split() else [wrong, wrong]), name


WRONG_ARGS: dict[str, tuple[str, str, str]] = {
    "of another plugin": (
        "InterPodAffinity",
        "kind: NodeResourcesFitArgs",
        "args for plugin InterPodAffinity were not of type InterPodAffinityArgs.kubescheduler.config.k8s.io, "
        "got NodeResourcesFitArgs.kubescheduler.config.k8s.io",
    ),
    "unknown argument": ("InterPodAffinity", "weight: 1", "unknown field"),
    "hard weight": (
        "InterPodAffinity",
        "hardPodAffinityWeight: 101",
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight: 101: not in valid range [0, 100]",
    ),
    "strategy": (
        "NodeResourcesFit",
        "scoringStrategy: {type: Most}",
        'Unsupported value: supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"',
    ),
    "strategy weight": (
        "NodeResourcesFit",
        "scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 101}]}",
        "resource weight of cpu not in valid range (0, 100]",
    ),
    "ratio without a shape": (
        "NodeResourcesFit",
        "scoringStrategy: {type: RequestedToCapacityRatio}",
        "Required value: must be specified when type is RequestedToCapacityRatio",
    ),
    "ratio with an empty shape": (
        "NodeResourcesFit",
        "scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}",
        "at least one point must be specified",
    ),
    "a shape that falls back": (
        "NodeResourcesFit",
        "scoringStrategy:\n  type: RequestedToCapacityRatio\n  requestedToCapacityRatio:\n"
        "    shape: [{utilization: 50, score: 1}, {utilization: 50, score: 2}]",
        "shape[1].utilization: 50: values must be sorted in increasing order",
    ),
    "a score beyond ten": (
        "NodeResourcesFit",
        "scoringStrategy:\n  type: RequestedToCapacityRatio\n  requestedToCapacityRatio:\n"
        "    shape: [{utilization: 50, score: 11}]",
        "shape[0].score: 11: not in valid range [0, 10]",
    ),
    "ratio for another strategy": (
        "NodeResourcesFit",
        "scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {shape: []}}",
        "Forbidden: must be nil when type is not RequestedToCapacityRatio",
    ),
    "group with a slash": (
        "NodeResourcesFit",
        "ignoredResourceGroups: [a/b]",
        "resource group name can't contain '/'",
    ),
    "balance weight": (
        "NodeResourcesBalancedAllocation",
        "resources: [{name: cpu, weight: 2}]",
        "resources[0].weight: 2: must be 1",
    ),
    "balance twice": (
        "NodeResourcesBalancedAllocation",
        "resources: [{name: cpu}, {name: cpu}]",
        "Duplicate value",
    ),
    "constraints beside the system's": (
        "PodTopologySpread",
        "defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
        "when .defaultConstraints are not empty",
    ),
    "a constraint with a selector": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints: [{maxSkew: 1, topologyKey: zone, "
        "whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]",
        "Forbidden: constraint must not define a selector, as they deduced for each pod",
    ),
    "a constraint without a skew": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints: [{topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]",
        "maxSkew: not in valid range (0, inf)",
    ),
    "a constraint twice": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints:\n"
        "- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}\n"
        "- {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}",
        "Duplicate value: {zone, DoNotSchedule}",
    ),
    "defaulting type": (
        "PodTopologySpread",
        "defaultingType: None",
        'Unsupported value: supported values: "System", "List"',
    ),
    "no candidates": (
        "DefaultPreemption",
        "minCandidateNodesPercentage: 0\nminCandidateNodesAbsolute: 0",
        "cannot be zero at the same time as minCandidateNodesAbsolute",
    ),
    "too many percent": (
        "DefaultPreemption",
        "minCandidateNodesPercentage: 101",
        "not in valid range [0, 100]",
    ),
    "an operator": (
        "NodeAffinity",
        "addedAffinity:\n  requiredDuringSchedulingIgnoredDuringExecution:\n"
        "    nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Has}]}]",
        'Unsupported value: supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
    ),
    "a constraint without a key": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]",
        "topologyKey: Required value: can not be empty",
    ),
    "a constraint whose key is none": (
        "PodTopologySpread",
        "defaultingType: List\n"
        "defaultConstraints: [{maxSkew: 1, topologyKey: -a, whenUnsatisfiable: DoNotSchedule}]",
        "name part must consist of alphanumeric characters",
    ),
    "a constraint without an action": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints: [{maxSkew: 1, topologyKey: zone}]",
        "whenUnsatisfiable: Required value: can not be empty",
    ),
    "a constraint with another action": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Never}]",
        'Unsupported value: supported values: "DoNotSchedule", "ScheduleAnyway"',
    ),
    "a constraint with another policy": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints: [{maxSkew: 1, topologyKey: zone, "
        "whenUnsatisfiable: ScheduleAnyway, nodeTaintsPolicy: Maybe}]",
        'Unsupported value: supported values: "Honor", "Ignore"',
    ),
    "a resource that is no name": (
        "NodeResourcesFit",
        "ignoredResources: [-a]",
        "name part must consist of alphanumeric characters",
    ),
    "a field of two names": (
        "NodeAffinity",
        "addedAffinity:\n  requiredDuringSchedulingIgnoredDuringExecution:\n"
        "    nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [a, b]}]}]",
        "must have one element",
    ),
    "a field that is no text": (
        "NodeAffinity",
        "addedAffinity:\n  requiredDuringSchedulingIgnoredDuringExecution:\n"
        "    nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [true]}]}]",
        "values[0]: true: expected text",
    ),
    "a field that exists": (
        "NodeAffinity",
        "addedAffinity:\n  requiredDuringSchedulingIgnoredDuringExecution:\n"
        "    nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: Exists}]}]",
        'Unsupported value: supported values: "In", "NotIn"',
    ),
    "values for what exists": (
        "NodeAffinity",
        "addedAffinity:\n  requiredDuringSchedulingIgnoredDuringExecution:\n"
        "    nodeSelectorTerms: [{matchExpressions: [{key: a, operator: DoesNotExist, values: [b]}]}]",
        "values set must be empty for exists and does not exist",
    ),
    "more than two values": (
        "NodeAffinity",
        "addedAffinity:\n  requiredDuringSchedulingIgnoredDuringExecution:\n"
        "    nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ['1', '2']}]}]",
        "for 'Gt', 'Lt' operators, exactly one value is required",
    ),
    "less than a word": (
        "NodeAffinity",
        "addedAffinity:\n  requiredDuringSchedulingIgnoredDuringExecution:\n"
        "    nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Lt, values: [b]}]}]",
        "for 'Gt', 'Lt' operators, the value must be an integer",
    ),
    "a shape of storage": (
        "VolumeBinding",
        "shape: []",
        "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
    ),
    "an operator without values": (
        "NodeAffinity",
        "addedAffinity:\n  preferredDuringSchedulingIgnoredDuringExecution:\n"
        "  - {weight: 1, preference: {matchExpressions: [{key: a, operator: In}]}}",
        "for 'in', 'notin' operators, values set can't be empty",
    ),
}


def _problem(read_it: Callable[[], Any]) -> str:
    with pytest.raises(InvalidInput) as caught:
        read_it()
    return str(caught.value)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_file(name: str) -> None:
    body, want = WRONG[name]
    assert want in _problem(lambda: read(body))


@pytest.mark.parametrize("name", WRONG_PROFILE)
def test_wrong_profile(name: str) -> None:
    body, want = WRONG_PROFILE[name]
    assert want in _problem(lambda: profile(body))


@pytest.mark.parametrize("name", WRONG_ARGS)
def test_wrong_arguments(name: str) -> None:
    plugin, body, want = WRONG_ARGS[name]
    assert want in _problem(lambda: args(plugin, body))


_CONSTRAINT = "topologyKey: zone, whenUnsatisfiable: DoNotSchedule"
# Plugin, arguments with a number, the lowest and the highest that are taken.
BOUNDS: dict[str, tuple[str, str, int, int]] = {
    "hard weight": ("InterPodAffinity", "hardPodAffinityWeight: {}", 0, 100),
    "percentage": ("DefaultPreemption", "minCandidateNodesPercentage: {}", 0, 100),
    "absolute": ("DefaultPreemption", "minCandidateNodesAbsolute: {}", 0, 2**31 - 1),
    "skew": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints: [{{maxSkew: {}, " + _CONSTRAINT + "}}]",
        1,
        2**31 - 1,
    ),
    "domains": (
        "PodTopologySpread",
        "defaultingType: List\ndefaultConstraints: [{{maxSkew: 1, minDomains: {}, " + _CONSTRAINT + "}}]",
        1,
        2**31 - 1,
    ),
    "weight of a resource": (
        "NodeResourcesFit",
        "scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu, weight: {}}}]}}",
        0,
        100,
    ),
    "utilization": (
        "NodeResourcesFit",
        "scoringStrategy:\n  type: RequestedToCapacityRatio\n  requestedToCapacityRatio:\n"
        "    shape: [{{utilization: {}, score: 1}}]",
        0,
        100,
    ),
    "score": (
        "NodeResourcesFit",
        "scoringStrategy:\n  type: RequestedToCapacityRatio\n  requestedToCapacityRatio:\n"
        "    shape: [{{utilization: 1, score: {}}}]",
        0,
        10,
    ),
    "weight in the balance": (
        "NodeResourcesBalancedAllocation",
        "resources: [{{name: cpu, weight: {}}}]",
        0,
        1,
    ),
    "bind timeout": ("VolumeBinding", "bindTimeoutSeconds: {}", 0, 2**63 - 1),
    "preferred weight": (
        "NodeAffinity",
        "addedAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: {}, preference: {{}}}}]}}",
        -(2**31),
        2**31 - 1,
    ),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_numbers_within_their_bounds_and_none_beyond(name: str) -> None:
    plugin, body, low, high = BOUNDS[name]
    for number in (low, low + 1, high):
        assert args(plugin, body.format(number))
    for number in (low - 1, high + 1):
        assert str(number) in _problem(lambda n=number: args(plugin, body.format(n)))  # type: ignore[misc]
    for word in ("true", "1.5", "many"):
        assert "expected a whole number" in _problem(lambda w=word: args(plugin, body.format(w)))  # type: ignore[misc]


@pytest.mark.parametrize(
    "name", ["podInitialBackoffSeconds: {}\npodMaxBackoffSeconds: {}", "podMaxBackoffSeconds: {}"]
)
def test_no_backoff_lasts_for_ever(name: str) -> None:
    most = 2**40
    assert read(name.format(most, most) + "\n").max_backoff_us == most * SECOND_US
    assert str(most + 1) in _problem(lambda: read(name.format(most + 1, most + 1) + "\n"))


def test_arguments_that_say_nothing_are_the_defaults() -> None:
    for plugin in (
        "DefaultPreemption",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "VolumeBinding",
        "DynamicResources",
        "ImageLocality",
    ):
        assert args(plugin, "{}") == profile("plugins:"), plugin
        typed = f"kind: {plugin}Args\napiVersion: kubescheduler.config.k8s.io/v1"
        assert args(plugin, typed) == profile("plugins:")


def test_expressions_of_nodes_are_taken_as_nodes_say_them() -> None:
    terms = (
        "{matchExpressions: [{key: a, operator: Exists}, {key: b, operator: Gt, values: ['-3']}], "
        "matchFields: [{key: metadata.name, operator: NotIn, values: [first]}]}"
    )
    found = args(
        "NodeAffinity",
        f"addedAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}}}",
    )
    nodes = [node("first").label(a="", b="9"), node("m").label(a="", b="9"), node("k").label(a="", b="-3")]
    assert judge(nodes, pod("p"), profile=found).feasible == ["m"]


def test_extenders_are_read_field_by_field() -> None:
    bare = Extender("http://x", weight=0)
    for body, want in (
        ("urlPrefix: http://x", bare),
        ("urlPrefix: http://x, weight: 3, prioritizeVerb: p", replace(bare, weight=3, prioritize_verb="p")),
        (
            "urlPrefix: http://x, filterVerb: f, preemptVerb: e",
            replace(bare, filter_verb="f", preempt_verb="e"),
        ),
        (
            "urlPrefix: http://x, bindVerb: b, ignorable: true",
            replace(bare, bind_verb="b", is_ignorable=True),
        ),
        ("urlPrefix: http://x, nodeCacheCapable: true", replace(bare, caches_nodes=True)),
        ("urlPrefix: http://x, httpTimeout: 1500ms", replace(bare, timeout_s=1.5)),
        ("urlPrefix: http://x, httpTimeout: 0s", bare),
        ("urlPrefix: https://x, enableHTTPS: true", Extender("https://x", weight=0, is_unverified=True)),
        (
            "urlPrefix: https://x, enableHTTPS: true, tlsConfig: {caFile: c}",
            Extender("https://x", weight=0, ca_file="c"),
        ),
        (
            "urlPrefix: https://x, tlsConfig: {caFile: c, insecure: true}",
            Extender("https://x", weight=0, ca_file="c", is_unverified=True),
        ),
    ):
        (found,) = read(f"extenders: [{{{body}}}]\n").profiles
        assert found.extenders == (want,), body
        assert found.ignored_resources == frozenset()


def test_what_an_extender_cares_for_is_ignored_if_it_says_so() -> None:
    managed = "[{name: a.io/b, ignoredByScheduler: true}, {name: a.io/c}]"
    (found,) = read(f"extenders: [{{urlPrefix: http://x, managedResources: {managed}}}]\n").profiles
    assert found.extenders[0].managed == ("a.io/b", "a.io/c")
    assert found.ignored_resources == {"a.io/b"}


def test_all_problems_at_once_with_file_and_line() -> None:
    said = _problem(lambda: read("parallelism: 0\nprofiles:\n- schedulerName: a\n  plugins: 3\n- {}\n"))
    assert [line.split(": ")[0] for line in said.splitlines()] == [
        "scheduler.yaml:3",
        "scheduler.yaml:6",
        "scheduler.yaml:7",
    ]


@pytest.mark.parametrize("version", ["kubescheduler.config.k8s.io/v1beta3", "v1"])
def test_another_version(version: str) -> None:
    text = f"apiVersion: {version}\nkind: KubeSchedulerConfiguration\n"
    said = _problem(lambda: read_profiles(read_text(text, "s.yaml")[0]))
    assert f'no kind "KubeSchedulerConfiguration" is registered for version "{version}"' in said


def test_another_kind() -> None:
    said = _problem(lambda: read_profiles(read_text("apiVersion: v1\nkind: Pod\n", "s.yaml")[0]))
    assert 's.yaml:2: kind: "Pod": expected KubeSchedulerConfiguration' in said


def test_a_file_holds_one_configuration(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(HEAD + "percentageOfNodesToScore: 40\n")
    assert read_configuration_file(file).profiles[0].percentage_of_nodes_to_score == 40
    file.write_text(HEAD + "---\n" + HEAD)
    assert "expected one KubeSchedulerConfiguration, found 2 objects" in _problem(
        lambda: read_configuration_file(file)
    )
    assert "no such file" in _problem(lambda: read_configuration_file(tmp_path / "absent.yaml"))
