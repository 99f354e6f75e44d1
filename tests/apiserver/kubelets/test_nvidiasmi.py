"""`nvidia-smi` in a simulated container agrees with the pod's annotations and its node's labels."""

from __future__ import annotations

from typing import Any

import pytest

from fairway.apiserver.kubelets import nvidiasmi
from fairway.apiserver.kubelets.nvidiasmireport import QUERIES
from fairway.apiserver.kubelets.place import Place
from fairway.cluster.store import Store
from fairway.kube.objects import Key
from fairway.kube.timestamps import parse_rfc3339

NOW_US = parse_rfc3339("2026-01-05T01:00:00Z")


def place(
    gpus: int = 2, product: str = "NVIDIA-H100-80GB-HBM3", limits: dict[str, Any] | None = None, **says: str
) -> Place:
    store = Store()
    labels = {"nvidia.com/gpu.product": product}
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}})
    container = {"name": "c", "resources": {"limits": limits or {"nvidia.com/gpu": str(gpus)}}}
    annotations = {f"fairway.dev/{name.replace('_', '-')}": value for name, value in says.items()}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [container]},
        "status": {
            "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": "2026-01-05T00:00:00Z"}}}]
        },
    }
    return Place(pod, "c", "n", store, NOW_US)


def run(at: Place, *arguments: str) -> nvidiasmi.Printed:
    found = nvidiasmi.shown(list(arguments), at)
    assert found is not None
    return found


BUSY = {"gpu_utilization": "0s:10%,30m:85%", "gpu_memory": "0s:10Gi,30m:40Gi", "gpu_index": "3-5"}


def test_what_the_annotations_say_is_what_is_asked() -> None:
    at = place(**BUSY)
    query = "--query-gpu=index,name,memory.used,memory.total,utilization.gpu,mig.mode.current"
    assert run(at, query, "--format=csv").text.splitlines() == [
        "index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%], mig.mode.current",
        "0, NVIDIA H100 80GB HBM3, 40960 MiB, 81559 MiB, 85 %, Disabled",
        "1, NVIDIA H100 80GB HBM3, 40960 MiB, 81559 MiB, 85 %, Disabled",
    ]
    earlier = at._replace(at_us=NOW_US - 40 * 60 * 1_000_000)
    bare = run(earlier, "--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits")
    assert bare.text == "10240, 10\n" * 2
    table = run(at).text
    assert "40960MiB /  81559MiB" in table
    assert "85%      Default" in table
    assert {len(line) for line in table.splitlines()[1:] if line} == {91}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--query-gpu=colour", "--format=csv"], 'Field "colour" is not a valid field to query.'),
        (["--query-gpu=name"], '"--format=" switch is missing.'),
    ],
)
def test_a_question_it_does_not_know(arguments: list[str], words: str) -> None:
    said = run(place(), *arguments)
    assert said.code == 2
    assert said.text.startswith(words)


def test_the_list_names_each_gpu_of_the_node_once() -> None:
    first, other = run(place(), "-L").text, run(place(gpu_index="1-2"), "-L").text
    assert first.splitlines()[0].startswith("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-")
    assert first.splitlines()[1].split()[-1] == other.splitlines()[0].split()[-1], (
        "the second GPU of the node"
    )


def test_the_topology_is_that_of_the_nodes_board_where_it_has_the_cards() -> None:
    at = place(gpus=8)
    plain, node = run(at, "topo", "-m").text, at.store.require(Key("Node", "", "n"))
    labels = {**node["metadata"]["labels"], "node.kubernetes.io/instance-type": "p5.48xlarge"}
    at.store.replace({**node, "metadata": {**node["metadata"], "labels": labels}})
    assert run(at, "topo", "-m").text != plain
    few = place(gpus=2)
    gone = few._replace(node="gone")
    assert run(gone, "topo", "-m").text.splitlines()[0] == run(few, "topo", "-m").text.splitlines()[0]


def test_dmon_counts() -> None:
    lines = run(place(**BUSY), "dmon", "-c", "3").text.splitlines()
    assert len(lines) == 2 + 3 * 2
    assert lines[2].split()[:6] == ["0", "605", "63", "-", "85", "42"], "70 W at rest, 700 at most"


@pytest.mark.parametrize(
    ("product", "link"),
    [("NVIDIA-H100-80GB-HBM3", "NV18"), ("NVIDIA-A100-SXM4-80GB", "NV12"), ("NVIDIA-L4", "PHB")],
)
def test_the_topology_has_the_links_of_the_model(product: str, link: str) -> None:
    lines = run(place(product=product), "topo", "-m").text.splitlines()
    assert lines[1].split("\t")[:3] == ["GPU0", " X ", link]


def test_a_mig_device() -> None:
    at = place(product="NVIDIA-A100-SXM4-40GB", limits={"nvidia.com/mig-1g.5gb": 2})
    listed = run(at, "-L").text.splitlines()
    assert listed[0].startswith("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-")
    assert [line.split()[:4] for line in listed[1:]] == [["MIG", "1g.5gb", "Device", n] for n in ("0:", "1:")]
    table = run(at).text
    assert "MIG devices:" in table
    assert "Enabled" in table
    assert {len(line) for line in table.splitlines()[1:] if line} == {91}
    profiles = run(at, "mig", "-lgip").text
    assert "|   0  MIG 1g.5gb          19     5/7        4.75       No     14     0     0   |" in profiles
    assert {len(line) for line in profiles.splitlines()} == {81}
    assert (
        run(at, "mig", "-lgipp").text.splitlines()[0] == "GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1"
    )
    made = run(at, "mig", "-lgi").text.splitlines()
    assert made[5] == "|   0  MIG 1g.5gb            19       11          4:1     |"
    assert {len(line) for line in made} == {59}
    assert run(at, "mig", "-cgi", "9").text == "Insufficient Permissions\n"
    assert run(at, "--query-gpu=mig.mode.current", "--format=csv,noheader").text == "Enabled\n"


def test_the_overview_is_laid_out_as_driver_580_does() -> None:
    """Lines as machines with H100s and A100s print them."""
    lines = run(place(1)).text.splitlines()
    assert lines[:4] == [
        "Mon Jan  5 01:00:00 2026       ",
        "+-----------------------------------------------------------------------------------------+",
        "| NVIDIA-SMI 580.82.07              Driver Version: 580.82.07      CUDA Version: 13.0     |",
        "+-----------------------------------------+------------------------+----------------------+",
    ]
    assert lines[8:11] == [
        "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:10:00.0 Off |                    0 |",
        "| N/A   31C    P0             70W /  700W |       1MiB /  81559MiB |      0%      Default |",
        "|                                         |                        |             Disabled |",
    ]
    long = run(place(1, product="NVIDIA-Some-Card-With-Too-Long-A-Name")).text.splitlines()[8]
    assert long.startswith("|   0  NVIDIA Some Card With To...    On  |")


def test_an_instance_in_a_container_hides_the_memory_of_its_card() -> None:
    lines = run(place(product="NVIDIA-A100-SXM4-40GB", limits={"nvidia.com/mig-1g.5gb": 1})).text.splitlines()
    assert lines[8].endswith(" Off |                   On |")
    assert lines[9].endswith("|                  N/A   |     N/A      Default |")
    at = next(i for i, line in enumerate(lines) if line.startswith("| GPU  GI"))
    assert lines[at : at + 2] == [
        "| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|        Shared         |",
        "|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |",
    ]
    assert lines[at + 4 : at + 6] == [
        "|  0   13   0   0  |               1MiB /  4864MiB    | 14      0 |  1   0    0    0    0 |",
        "|                  |                 0MiB /  8191MiB  |           |                       |",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--foo"], 2, "ERROR: Option --foo is not recognized. Please run 'nvidia-smi -h' for help.\n"),
        (["-q", "--foo"], 2, "ERROR: Option --foo is not recognized."),
        (["-pm", "1"], 1, "nvidia-smi: Fairway does not simulate -pm\n"),
        (["-q", "-x"], 1, "nvidia-smi: Fairway does not simulate -x\n"),
        (["--query-compute-apps=pid,name", "--format=csv"], 0, "pid, process_name\n"),
        (["--query-compute-apps=colour", "--format=csv"], 2, 'Field "colour" is not a valid field to query.'),
        (["--version"], 0, "NVIDIA-SMI version  : 580.82.07\nNVML version        : 580.82\n"),
        (["-l", "5", "-L"], 0, "GPU 0: NVIDIA H100"),
        (["--help-query-gpu"], 0, 'List of valid properties to query for the switch "--query-gpu":'),
    ],
)
def test_other_options(arguments: list[str], code: int, words: str) -> None:
    said = run(place(), *arguments)
    assert said.code == code
    assert said.text.startswith(words)
    assert said.is_known == (code != 1)


def test_a_query_has_the_names_of_fields_whatever_they_were_called() -> None:
    asked = "--query-gpu=gpu_name,gpu_bus_id,clocks.sm,clocks.max.sm,power.limit,fan.speed,ecc.mode.current"
    lines = run(place(1), asked, "--format=csv").text.splitlines()
    assert lines == [
        "name, pci.bus_id, clocks.current.sm [MHz], clocks.max.sm [MHz], power.limit [W], fan.speed [%], "
        "ecc.mode.current",
        "NVIDIA H100 80GB HBM3, 00000000:10:00.0, 345 MHz, 1980 MHz, 700.00 W, [N/A], Enabled",
    ]


def test_every_field_can_be_asked() -> None:
    asked = "--query-gpu=" + ",".join(QUERIES)
    head, *rows = run(place(**BUSY), asked, "--format=csv").text.splitlines()
    assert {len(row.split(", ")) for row in (head, *rows)} == {len(QUERIES)}


def test_the_report_has_its_colons_where_driver_580_has_them() -> None:
    lines = run(place(**BUSY), "-q").text.splitlines()
    assert lines[:4] == [
        "",
        "==============NVSMI LOG==============",
        "",
        "Timestamp                                              : Mon Jan  5 01:00:00 2026",
    ]
    assert "        Total                                          : 81559 MiB" in lines
    assert "        Used                                           : 40960 MiB" in lines
    assert "        GPU                                            : 85 %" in lines
    assert "    GPU Memory Power Readings" in [line.rstrip() for line in lines]
    assert {line.index(" : ") for line in lines if " : " in line} == {54}
    assert lines.count("    Processes                                          : None") == 2


def test_parts_of_the_report() -> None:
    lines = run(place(1), "-q", "-d", "MEMORY,COMPUTE").text.splitlines()
    inside = [line for line in lines if line.startswith("    ") and not line.startswith("     ")]
    assert [line.split("  ")[2] for line in inside] == [
        "FB Memory Usage",
        "BAR1 Memory Usage",
        "Conf Compute Protected Memory Usage",
        "Compute Mode",
    ]


def test_nvlink_and_pmon() -> None:
    links = run(place(1), "nvlink", "-s").text.splitlines()
    assert links[1] == "\t Link 0: 26.562 GB/s" and len(links) == 19
    assert run(place(1), "pmon", "-c", "1").text.splitlines() == [
        "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command ",
        "# Idx           #    C/G      %      %      %      %      %      %    name ",
        "    0          -     -      -      -      -      -      -      -    -              ",
    ]


CUT = "0=3g.40gb@4,2g.20gb@0,1g.10gb@2,1g.10gb@3"


def node_place(**pod: Any) -> Place:
    """On a node with two H100s, the first cut."""
    store = Store()
    notes = {"fairway.dev/gpus": "2 NVIDIA-H100-80GB-HBM3", "fairway.dev/gpu-layout": CUT}
    store.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "annotations": notes}})
    spec = {"nodeName": "n", "containers": [{"name": "c"}]}
    body = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d", **pod}, "spec": spec}
    return Place({"apiVersion": "v1", **body}, "c", "n", store, NOW_US)


def test_a_pod_sees_the_instances_it_was_given_and_no_others() -> None:
    at = node_place(annotations={"fairway.dev/gpu-instances": "0/1g.10gb@3"})
    listed = run(at, "-L").text.splitlines()
    assert len(listed) == 2 and listed[1].split()[:4] == ["MIG", "1g.10gb", "Device", "0:"]
    other = run(node_place(annotations={"fairway.dev/gpu-instances": "0/1g.10gb@2"}), "-L").text.splitlines()
    assert other[0] == listed[0] and other[1] != listed[1]
    assert "|   0  MIG 1g.10gb         19     0/7" in run(at, "mig", "-lgip").text


def test_the_operators_pods_see_every_card_and_instance() -> None:
    owner = [{"kind": "DaemonSet", "name": "nvidia-driver-daemonset"}]
    at = node_place(labels={"app": "nvidia-driver-daemonset"}, ownerReferences=owner)
    listed = run(at, "-L").text.splitlines()
    want = ["0:", "2g.20gb", "1g.10gb", "1g.10gb", "3g.40gb", "1:"]
    assert [line.split()[1] for line in listed] == want
    made = run(at, "mig", "-lgi").text
    assert "|   0  MIG 2g.20gb           14        3          0:2     |" in made
    assert "|   0  MIG 3g.40gb            9        1          4:4     |" in made
    only = run(at, "-i", "1", "-L").text.splitlines()
    assert len(only) == 1 and only[0].startswith("GPU 1:")
    assert run(at, "--id=7", "-L") == nvidiasmi.Printed("No devices were found\n", 6)


def busy_node() -> Place:
    """The node as its debugger sees it: one pod has the second card, one an instance of the first."""
    at = node_place()
    at.pod["metadata"]["name"] = "node-debugger-n-x7x2p"
    at.pod["spec"]["hostPID"] = True
    running = [{"name": "c", "state": {"running": {"startedAt": "2026-01-05T00:00:00Z"}}}]
    for name, notes, limits in (
        ("a", {"gpu-index": "1", "gpu-memory": "10Gi", "gpu-utilization": "30%"}, {"nvidia.com/gpu": "1"}),
        (
            "b",
            {"gpu-instances": "0/3g.40gb@4", "gpu-memory": "2Gi", "gpu-utilization": "50%"},
            {"nvidia.com/mig-3g.40gb": "1"},
        ),
    ):
        container = {"name": "c", "command": ["/usr/bin/python3", "x.py"], "resources": {"limits": limits}}
        at.store.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "namespace": "d",
                    "annotations": {f"fairway.dev/{k}": v for k, v in notes.items()},
                },
                "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [container]},
            }
        )
        at.store.set_status(Key("Pod", "d", name), {"phase": "Running", "containerStatuses": running})
    return at


def test_the_node_tells_of_the_processes_of_its_pods() -> None:
    """Sums by card, and who holds them, as root on the machine sees it."""
    at = busy_node()
    asked = "--query-gpu=memory.used,utilization.gpu"
    told = run(at, asked, "--format=csv,noheader").text.splitlines()
    assert told == ["2048 MiB, [N/A]", "10240 MiB, 30 %"]
    rows = [line for line in run(at).text.splitlines() if "/usr/bin/python3" in line]
    assert [(r[:18], r[-22:]) for r in rows] == [
        ("|    0    1    0  ", "             2048MiB |"),
        ("|    1   N/A  N/A ", "            10240MiB |"),
    ]
    assert {len(row) for row in rows} == {91}
    assert "2048MiB / 40448MiB" in run(at).text
    power = run(at, "--query-gpu=power.draw", "--format=csv,noheader").text.splitlines()
    assert power == ["208.00 W", "259.00 W"], "22 % of a card: half of its 60 of 132 multiprocessors"
    used = run(at, "--query-compute-apps=name,used_memory", "--format=csv,noheader,nounits").text
    assert used == "/usr/bin/python3, 2048\n/usr/bin/python3, 10240\n"
    assert (
        run(at, "pmon", "-c", "1")
        .text.splitlines()[3]
        .endswith("C     30     15      -      -      -      -    python3        ")
    )
    made = run(at, "mig", "-lci").text.splitlines()
    assert made[-2] == "|   0      1       MIG 3g.40gb          2         0          0:3     |"
    assert {len(line) for line in made} == {70}
    assert run(at, "mig", "-cgi", "9").is_known is False


def test_the_driver_is_the_one_that_the_node_has() -> None:
    at = node_place(annotations={"fairway.dev/gpu-instances": "0/1g.10gb@3"})
    node = at.store.objects("Node")[0]
    labels = {"nvidia.com/cuda.driver-version.full": "595.91.07"}
    at.store.replace({**node, "metadata": {**node["metadata"], "labels": labels}})
    text = run(at).text
    assert (
        "| NVIDIA-SMI 595.91.07              Driver Version: 595.91.07      CUDA Version: 13.2     |" in text
    )
    assert (
        "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |" in text
    )


def test_a_debugger_of_the_node_sees_its_cards() -> None:
    at = node_place()
    at.pod["metadata"]["name"] = "node-debugger-n-x7x2p"
    at.pod["spec"]["hostPID"] = True
    assert run(at, "-L").text.count("GPU ") == 2


def test_without_mig_there_is_nothing_to_list() -> None:
    assert run(place(product="NVIDIA-L4"), "mig", "-lgip").text == "No MIG-supported devices found.\n"
    assert run(place(), "mig", "-lgip") == nvidiasmi.Printed("No MIG-enabled devices found.\n", 6)


def test_without_a_gpu_there_is_no_nvidia_smi() -> None:
    assert nvidiasmi.shown([], place(limits={"cpu": 1})) is None


def test_what_a_process_is_called_cannot_command_a_terminal() -> None:
    at = place(1)
    at.pod["spec"]["containers"][0]["command"] = ["\x1b]0;owned\x07\n" + "x" * 5_000]
    (use,) = {u for d in nvidiasmi.devices_of(at) for u in d.uses}
    assert use.name == "?]0;owned??" + "x" * 245


def test_the_report_tells_of_instances_and_of_processes() -> None:
    """Sections and names as drivers 580 print them."""
    text = run(busy_node(), "-q").text
    first, second = text.split("\nGPU ")[1:]
    rows = [tuple(part.strip() for part in line.partition(" : ")[::2]) for line in first.splitlines()]
    starts = [i for i, row in enumerate(rows) if row[0] == "MIG Device"]
    assert [rows[i + 1] for i in starts] == [("Index", str(n)) for n in range(4)]
    assert [rows[i + 2][1] for i in starts] == ["3", "9", "10", "1"]
    assert rows[starts[3] : starts[3] + 26] == [
        ("MIG Device", ""),
        ("Index", "3"),
        ("GPU Instance ID", "1"),
        ("Compute Instance ID", "0"),
        ("Device Attributes", ""),
        ("Shared", ""),
        ("Multiprocessor count", "60"),
        ("Copy Engine count", "3"),
        ("Encoder count", "0"),
        ("Decoder count", "3"),
        ("OFA count", "0"),
        ("JPG count", "3"),
        ("ECC Errors", ""),
        ("Volatile", ""),
        ("SRAM Uncorrectable", "0"),
        ("FB Memory Usage", ""),
        ("Total", "40448 MiB"),
        ("Reserved", "0 MiB"),
        ("Used", "2048 MiB"),
        ("Free", "38400 MiB"),
        ("BAR1 Memory Usage", ""),
        ("Total", "65535 MiB"),
        ("Used", "0 MiB"),
        ("Free", "65535 MiB"),
        rows[starts[3] + 24],
        rows[starts[3] + 25],
    ]
    for part, instance, memory in ((first, ("1", "0"), 2048), (second, ("N/A", "N/A"), 10240)):
        lines = part.splitlines()
        at = next(i for i, line in enumerate(lines) if line.strip() == "Processes")
        told = [line.partition(" : ")[::2] for line in lines[at + 1 : at + 7]]
        names = [name.rstrip() for name, _ in told]
        assert names == [
            "        GPU instance ID",
            "        Compute instance ID",
            "        Process ID",
            "            Type",
            "            Name",
            "            Used GPU Memory",
        ]
        assert [value for _, value in told[:2]] == list(instance)
        assert told[2][1].isdigit()
        assert [value for _, value in told[3:]] == ["C", "/usr/bin/python3", f"{memory} MiB"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["topo"], 2, "ERROR: Option is missing.\n"),
        (["topo", "-m"], 0, "\t"),
        (["nvlink"], 1, "nvidia-smi: Fairway does not simulate nvlink beyond --status"),
        (
            ["-h"],
            0,
            "NVIDIA System Management Interface -- v580.82.07\n\nSimulated here: -L, --list-gpus, -q",
        ),
        (["--help"], 0, "NVIDIA System Management Interface -- v580.82.07\n"),
    ],
)
def test_verbs_and_what_they_need(arguments: list[str], code: int, words: str) -> None:
    said = run(place(), *arguments)
    assert (said.code, said.text[: len(words)]) == (code, words)
    assert "--help," not in said.text


@pytest.mark.parametrize(
    ("count", "told", "instances", "want"),
    [
        (2, "", "", [0, 1]),
        (2, "3-5", "", [3, 5]),
        (1, "3,5", "", [3]),
        (2, "3, 5", "", [3, 5]),
        (3, "5", "", [5]),
        (3, "x,5", "", [5]),
        (2, "1", "0/1g.10gb@2", [0, 1]),
        (0, "3", "", []),
        (0, "", "", []),
    ],
)
@pytest.mark.parametrize("where", ["limits", "requests"])
def test_which_cards_a_container_has(
    where: str, count: int, told: str, instances: str, want: list[int]
) -> None:
    at = place(count)
    at.pod["spec"]["containers"][0]["resources"] = {where: {"nvidia.com/gpu": str(count)}}
    notes = at.pod["metadata"]["annotations"]
    notes |= {"fairway.dev/gpu-index": told} if told else {}
    notes |= {"fairway.dev/gpu-instances": instances} if instances else {}
    assert nvidiasmi.gpus_of(at) == want


def test_instances_that_are_only_requested_are_seen() -> None:
    """Without limits, as an extended resource may be written in a simulation; a limit is what counts where both are."""
    for resources, count in (
        ({"requests": {"nvidia.com/mig-1g.5gb": 2}}, 2),
        ({"requests": {"nvidia.com/mig-1g.5gb": 2}, "limits": {"nvidia.com/mig-1g.5gb": 3}}, 3),
        ({"requests": {"nvidia.com/mig-9g.5gb": 2, "cpu": 1}}, 0),
    ):
        at = place(product="NVIDIA-A100-SXM4-40GB")
        at.pod["spec"]["containers"][0]["resources"] = resources
        assert sum(len(d.mig) for d in nvidiasmi.devices_of(at)) == count


@pytest.mark.parametrize(
    ("arguments", "rounds"),
    [
        (["-c", "3"], 3),
        (["-c", "0"], 1),
        (["-c", "x"], 1),
        (["-c"], 1),
        ([], 1),
        (["-c", "100"], 100),
        (["-c", "101"], 100),
    ],
)
@pytest.mark.parametrize("verb", ["dmon", "pmon"])
def test_rounds_are_counted_and_have_an_end(verb: str, arguments: list[str], rounds: int) -> None:
    assert len(run(place(1), verb, *arguments).text.splitlines()) == 2 + rounds


@pytest.mark.parametrize("state", [{}, {"waiting": {"reason": "x"}}, {"running": {}}, None])
def test_what_does_not_run_uses_nothing(state: dict[str, Any] | None) -> None:
    query = ("--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits")
    at = place(1, **BUSY)
    assert run(at, *query).text == "40960, 85\n"
    statuses = [] if state is None else [{"name": "c", "state": state}]
    pod = {**at.pod, "status": {"containerStatuses": statuses}}
    assert run(at._replace(pod=pod), *query).text == "1, 0\n"


def test_what_nobody_understands_is_used_not_at_all() -> None:
    query = ("--query-gpu=memory.used,utilization.gpu", "--format=csv,noheader,nounits")
    assert run(place(1, gpu_utilization="much", gpu_memory="0s:10Gi"), *query).text == "1, 0\n"
