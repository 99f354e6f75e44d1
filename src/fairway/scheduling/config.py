"""What does a KubeSchedulerConfiguration file ask for?

In: the file kube-scheduler takes with `--config` (kubescheduler.config.k8s.io/v1). Out: profiles and the few
settings that change decisions. Everything wrong is reported at once, located, in upstream's words. Settings of
the process (leader election, profiling, …) are accepted and mean nothing here.

Reading order: this, `configplugins` (which plugins run), `configargs` (their arguments), `configextenders`.
Source: pkg/scheduler/apis/config/v1/defaults.go, validation/validation.go (v1.36).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fairway.cluster.shapes import DEFAULT_SCHEDULER
from fairway.errors import FieldProblem, InvalidInput
from fairway.kube.manifest import Manifest, capped, read_path
from fairway.kube.timestamps import SECOND_US
from fairway.scheduling.configargs import Changes, read_args
from fairway.scheduling.configextenders import read_extenders
from fairway.scheduling.configfields import DUPLICATE, REQUIRED, Part, root_of
from fairway.scheduling.configplugins import PLUGINS, read_plugins
from fairway.scheduling.extenders import Extender
from fairway.scheduling.profile import DEFAULT_PROFILE, Profile
from fairway.scheduling.queue import INITIAL_BACKOFF_US, MAX_BACKOFF_US

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
# clientConnection.qps and burst where the file says nothing.
DEFAULT_QPS, DEFAULT_BURST = 50, 100

_FIELDS = (
    "apiVersion",
    "kind",
    "metadata",
    "parallelism",
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
    "delayCacheUntilActive",
)
_PROFILE_FIELDS = ("schedulerName", "percentageOfNodesToScore", "plugins", "pluginConfig")
_MOST_SECONDS = 2**40


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    """One kube-scheduler process. `client_qps` and `client_burst` bound its writes to the API server."""

    profiles: tuple[Profile, ...] = (DEFAULT_PROFILE,)
    initial_backoff_us: int = INITIAL_BACKOFF_US
    max_backoff_us: int = MAX_BACKOFF_US
    client_qps: int = DEFAULT_QPS
    client_burst: int = DEFAULT_BURST


def read_configuration_file(path: Path) -> SchedulerConfiguration:
    """The configuration in a file.

    Raises: InvalidInput listing every problem, or saying that the file holds something else.
    """
    manifests = read_path(path)
    if len(manifests) > 1:
        expected = f"expected one {KIND}, found {len(manifests)} objects"
        raise InvalidInput((FieldProblem(str(path), manifests[1].line, "", "", expected),))
    return read_configuration(manifests[0])


def read_profiles(manifest: Manifest) -> tuple[Profile, ...]:
    """The profiles alone. Raises: InvalidInput."""
    return read_configuration(manifest).profiles


def read_configuration(manifest: Manifest) -> SchedulerConfiguration:
    """The configuration in a document.

    Raises: InvalidInput listing every problem.
    """
    problems: list[FieldProblem] = []
    root = root_of(manifest, problems)
    configuration = _read(root) if _is_ours(root) else SchedulerConfiguration()
    if problems:
        raise InvalidInput(capped(problems))
    return configuration


def _is_ours(root: Part) -> bool:
    kind, version = root.value.get("kind"), root.value.get("apiVersion")
    if kind != KIND:
        root.at("kind", kind).reject(f"expected {KIND}")
        return False
    if version != API_VERSION:
        root.at("apiVersion", version).reject(
            f'no kind "{KIND}" is registered for version "{version}": expected {API_VERSION}'
        )
        return False
    return True


def _read(root: Part) -> SchedulerConfiguration:
    fields = root.members(*_FIELDS)
    fields["parallelism"].integer(16, 1, None, "should be an integer value greater than zero")
    extenders, left_to_them = read_extenders(fields["extenders"])
    initial = fields["podInitialBackoffSeconds"].integer(1, 1, _MOST_SECONDS, "must be greater than 0")
    longest = fields["podMaxBackoffSeconds"].integer(10, None, _MOST_SECONDS)
    if longest < initial:
        fields["podMaxBackoffSeconds"].reject("must be greater than or equal to PodInitialBackoffSeconds")
    client = fields["clientConnection"]
    connection = client.members("kubeconfig", "acceptContentTypes", "contentType", "qps", "burst")
    profiles = _profiles(fields["profiles"], _percentage(fields["percentageOfNodesToScore"], 0))
    if extenders:
        profiles = tuple(_with_extenders(p, extenders, left_to_them) for p in profiles)
    return SchedulerConfiguration(
        profiles=profiles,
        initial_backoff_us=initial * SECOND_US,
        max_backoff_us=longest * SECOND_US,
        client_qps=_number(connection["qps"], DEFAULT_QPS),
        client_burst=connection["burst"].integer(0) or DEFAULT_BURST,
    )


def _with_extenders(profile: Profile, extenders: tuple[Extender, ...], ignored: frozenset[str]) -> Profile:
    """What extenders take care of themselves is ignored instead of what the plugin's arguments say, as upstream."""
    return replace(profile, extenders=extenders, ignored_resources=ignored or profile.ignored_resources)


def _number(part: Part, default: int) -> int:
    """A float upstream; 0 means the default, a fraction is rounded up."""
    if isinstance(part.value, float):
        return max(int(-(-part.value // 1)), 0) or default
    return part.integer(0) or default


def _percentage(part: Part, default: int) -> int:
    return part.integer(default, 0, 100, "not in valid range [0-100]")


def _profiles(part: Part, percentage: int) -> tuple[Profile, ...]:
    items = part.items()
    if not items:
        return (replace(DEFAULT_PROFILE, percentage_of_nodes_to_score=percentage),)
    seen: dict[str, Part] = {}
    profiles = []
    for item in items:
        fields = item.members(*_PROFILE_FIELDS)
        name_field = fields["schedulerName"]
        name = name_field.text(DEFAULT_SCHEDULER if len(items) == 1 else "")
        if not name:
            name_field.reject(REQUIRED)
        elif name in seen:
            name_field.reject(DUPLICATE)
        seen[name] = name_field
        profiles.append(_profile(fields, name, percentage))
    return tuple(profiles)


def _profile(fields: dict[str, Part], name: str, percentage: int) -> Profile:
    enabled = read_plugins(fields["plugins"], name)
    changes = _plugin_config(fields["pluginConfig"])
    return replace(
        DEFAULT_PROFILE,
        scheduler_name=name,
        filters=enabled.filters,
        weights=enabled.weights,
        preempts=enabled.preempts,
        has_dynamic_resources=enabled.has_dynamic_resources,
        permits=enabled.permits,
        percentage_of_nodes_to_score=_percentage(fields["percentageOfNodesToScore"], percentage),
        **changes,
    )


def _plugin_config(part: Part) -> Changes:
    changes: Changes = {}
    seen: dict[str, None] = {}
    for item in part.items():
        fields = item.members("name", "args")
        plugin = fields["name"].required_text()
        if plugin in seen:
            fields["name"].reject(f"{DUPLICATE}: repeated config for plugin {plugin}")
        elif plugin and plugin not in PLUGINS:
            fields["name"].reject(
                f'plugin "{plugin}" does not exist: expected one of {", ".join(sorted(PLUGINS))}'
            )
        seen[plugin] = None
        changes.update(read_args(fields["args"], plugin))
    return changes
