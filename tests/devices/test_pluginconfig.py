"""The device plugin's configuration: what it makes of cards, and what it says of what it cannot read."""

from __future__ import annotations

import pytest

from fairway.catalog.nodegpus import gpus_of_node
from fairway.devices.advertising import advertised, feature_labels_of, mps_limits, single_requests
from fairway.devices.pluginconfig import (
    PluginConfigError,
    chosen_config,
    read_plugin_config,
)
from fairway.kube.objects import Obj

SEVEN = ",".join(f"1g.10gb@{i}" for i in range(7))


def node(count: int = 8, layout: str = "", unhealthy: str = "") -> Obj:
    annotations = {
        "fairway.dev/gpus": f"{count} NVIDIA-H100-80GB-HBM3",
        "fairway.dev/gpu-layout": layout,
        "fairway.dev/gpu-unhealthy": unhealthy,
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": annotations}}


def config(resources: str, strategy: str = "timeSlicing", more: str = "", mig: str = "none") -> str:
    sharing = f"{{{strategy}: {{{more} resources: [{resources}]}}}}"
    return f"{{version: v1, flags: {{migStrategy: {mig}}}, sharing: {sharing}}}"


FOUR = "{name: nvidia.com/gpu, replicas: 4}"


@pytest.mark.parametrize(
    ("text", "of", "want"),
    [
        ("", node(), {"nvidia.com/gpu": 8}),
        (config(FOUR), node(), {"nvidia.com/gpu": 32}),
        (config(FOUR, more="renameByDefault: true,"), node(), {"nvidia.com/gpu.shared": 32}),
        (config("{name: gpu, replicas: 10}", "mps"), node(), {"nvidia.com/gpu": 80}),
        (config(FOUR, mig="single"), node(1, f"0={SEVEN}"), {"nvidia.com/gpu": 28}),
        (
            config("{name: nvidia.com/mig-1g.10gb, replicas: 4}", mig="mixed"),
            node(2, f"0={SEVEN}"),
            {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 28},
        ),
        (
            "{flags: {migStrategy: mixed}}",
            node(1, "0=1g.10gb+me@0,3g.40gb@4"),
            {"nvidia.com/mig-1g.10gb.me": 1, "nvidia.com/mig-3g.40gb": 1},
        ),
        ("{flags: {migStrategy: none}}", node(2, f"0={SEVEN}"), {"nvidia.com/gpu": 2}),
    ],
)
def test_devices_by_configuration(text: str, of: Obj, want: dict[str, int]) -> None:
    capacity, healthy = advertised(gpus_of_node(of), read_plugin_config(text))
    assert capacity == healthy == want


def test_unhealthy_cards_are_there_and_not_allocatable() -> None:
    gpus = gpus_of_node(node(8, unhealthy="3,5,99"))
    assert advertised(gpus, read_plugin_config(config(FOUR))) == (
        {"nvidia.com/gpu": 32},
        {"nvidia.com/gpu": 24},
    )


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (node(2, f"0={SEVEN}"), "all devices on the node must be configured with the same migEnabled value"),
        (node(1, "0=3g.40gb@4,1g.10gb@0"), "more than one MIG device type present on node"),
        (node(1, "0="), "device 0 has no MIG devices configured"),
    ],
)
def test_what_the_single_strategy_does_not_stand(of: Obj, said: str) -> None:
    with pytest.raises(PluginConfigError, match=said):
        advertised(gpus_of_node(of), read_plugin_config("", "single"))
    labels = feature_labels_of(
        gpus_of_node(of), read_plugin_config("", "single"), "580.82.07", "13.0", "unknown"
    )
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-MIG-INVALID"
    assert labels["nvidia.com/gpu.count"] == "0"


def test_labels_as_gpu_feature_discovery_writes_them() -> None:
    read = read_plugin_config(config(FOUR))
    labels = feature_labels_of(gpus_of_node(node()), read, "580.82.07", "13.0", "DGXH100")
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3-SHARED"
    assert labels["nvidia.com/gpu.replicas"] == "4" and labels["nvidia.com/gpu.count"] == "8"
    assert labels["nvidia.com/gpu.sharing-strategy"] == "time-slicing"
    assert labels["nvidia.com/cuda.driver-version.revision"] == "07"
    mixed = read_plugin_config("", "mixed")
    labels = feature_labels_of(gpus_of_node(node(2, "0=3g.40gb@4")), mixed, "580.82.07", "13.0", "u")
    assert labels["nvidia.com/mig-3g.40gb.product"] == "NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"
    assert labels["nvidia.com/mig-3g.40gb.multiprocessors"] == "60"
    assert labels["nvidia.com/mig-3g.40gb.engines.copy"] == "3"
    assert labels["nvidia.com/mig.strategy"] == "mixed"
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"


def test_requests_above_one_are_refused_where_they_are() -> None:
    assert single_requests(read_plugin_config(config(FOUR))) == ()
    assert single_requests(read_plugin_config(config(FOUR, more="failRequestsGreaterThanOne: true,"))) == (
        "nvidia.com/gpu",
    )
    assert single_requests(read_plugin_config(config(FOUR, "mps"))) == ("nvidia.com/gpu",)
    relaxed = read_plugin_config(config(FOUR, "mps", "failRequestsGreaterThanOne: false,"))
    assert single_requests(relaxed) == ()


def test_limits_of_mps_clients() -> None:
    limits = mps_limits(gpus_of_node(node()), read_plugin_config(config("{name: gpu, replicas: 10}", "mps")))
    assert limits == (8155 * 2**20, 10)


CONFIG = "unable to load config: unable to parse config file: error parsing config file: "
JSON = CONFIG + "unmarshal error: error unmarshaling JSON: while decoding JSON: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "version: v2",
            CONFIG + "unknown version: v2",
        ),
        ("flags: {migStrategy: singel}", "unable to validate flags: unknown MIG strategy: singel"),
        ("sharing: {timeSlicing: {replicas: 4}}", JSON + "no resources specified"),
        ("sharing: {timeSlicing: {resources: []}}", JSON + "no resources specified"),
        (config("{replicas: 4}"), JSON + "no resource name specified"),
        (config("{name: nvidia.com/gpu}"), JSON + "no replicas specified"),
        (config("{name: gpu, replicas: 0}"), JSON + "number of replicas must be >= 2"),
        (config("{name: gpu, replicas: 1}"), JSON + "number of replicas must be >= 2"),
        (
            config("{name: gpu, replicas: many}"),
            JSON + "json: cannot unmarshal string into Go value of type int",
        ),
        (
            config("{name: gpu, replicas: 4, devices: some}"),
            JSON + "devices set as 'some' but the only valid",
        ),
        ("[]", ""),
        ("[1]", JSON + "json: cannot unmarshal array into Go value of type v1.Config"),
        (
            "sharing: {mps: {resources: 3}}",
            JSON + "json: cannot unmarshal number into Go value of type []v1.",
        ),
        (
            config(FOUR, "mps", mig="mixed"),
            "unable to validate flags: using --mig-strategy=mixed is not supported with MPS",
        ),
        ("{: ", "unable to load config: unable to parse config file"),
    ],
)
def test_what_the_plugin_says_before_it_exits(text: str, said: str) -> None:
    if not said:
        assert read_plugin_config(text).shared == {}
        return
    with pytest.raises(PluginConfigError) as raised:
        read_plugin_config(text)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("replicas", "strategy", "said"),
    [
        (1_000_000, "timeSlicing", "8 x 1000000 devices of nvidia.com/gpu, more than 160,000"),
        (49, "mps", "maximum allowed replicas exceeded: 49 > 48"),
    ],
)
def test_more_replicas_than_there_can_be(replicas: int, strategy: str, said: str) -> None:
    read = read_plugin_config(config(f"{{name: gpu, replicas: {replicas}}}", strategy))
    with pytest.raises(PluginConfigError, match=said):
        advertised(gpus_of_node(node()), read)


def test_unknown_keys_are_ignored_and_named() -> None:
    read = read_plugin_config(
        "{version: v1, sharing: {timeslicing: {}, timeSlicing: {renameDefault: true, resources: "
        "[{name: gpu, replicas: 2, count: 3}]}}, flag: 1}"
    )
    assert read.ignored == (
        "flag",
        "sharing.timeslicing",
        "sharing.timeSlicing.renameDefault",
        "sharing.timeSlicing.resources[0].count",
    )


def test_which_file_a_node_takes() -> None:
    files = {"any": "a", "h100": "b"}
    assert chosen_config(files, "h100", "any") == "h100"
    assert chosen_config(files, "", "any") == "any"
    assert chosen_config(files, "", "") is None
    with pytest.raises(PluginConfigError, match="specified config a100 does not exist"):
        chosen_config(files, "a100", "any")
    with pytest.raises(PluginConfigError, match="no configuration files available"):
        chosen_config({}, "", "")
