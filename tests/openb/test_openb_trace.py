"""Reading the openb files: what is taken, and what each fault is called."""

import pytest
from openbworld import NODES, PODS, written

from fairway.errors import InvalidInput
from fairway.openb.trace import read_trace


def test_rows_become_nodes_and_pods(tmp_path):
    trace = read_trace(*written(tmp_path))
    assert [(n.name, n.cpu_milli, n.memory_mib, n.gpu, n.model) for n in trace.nodes] == [
        ("node-0", 32000, 65536, 2, "T4"),
        ("node-1", 64000, 131072, 4, "V100"),
    ]
    pod = trace.pods[2]
    assert (pod.num_gpu, pod.gpu_milli, pod.gpu_models) == (2, 1000, ("V100", "A10"))
    assert (pod.created_s, pod.deleted_s) == (20, 200)
    assert trace.skipped == ()


def test_a_list_without_wishes_and_stamps_will_do(tmp_path):
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,1000,0,1,500\na,1000,0,0,0\n"
    trace = read_trace(*written(tmp_path, pods=pods))
    assert [(p.name, p.gpu_models, p.created_s) for p in trace.pods] == [("a", (), None), ("b", (), None)]


BAD_PODS = {
    "truncated": ("pod-4,4000,8192,1", "gpu_milli", "8 columns, this is a truncated row of 4"),
    "too long": ("pod-4,1,1,0,0,,0,9,9", "deletion_time", "8 columns, this is a row that is too long of 9"),
    "no number": ("pod-4,four,8192,0,0,,0,9", "cpu_milli: four", "an integer, 0 or more"),
    "empty number": ("pod-4,,8192,0,0,,0,9", "cpu_milli", "an integer, 0 or more"),
    "a float": ("pod-4,4000,8192,0.5,0,,0,9", "num_gpu: 0.5", "an integer from 0 to 8"),
    "negative": ("pod-4,-1,8192,0,0,,0,9", "cpu_milli: -1", "an integer, 0 or more"),
    "not ASCII digits": ("pod-4,٣,8192,0,0,,0,9", "cpu_milli: ٣", "an integer, 0 or more"),
    "enormous": ("pod-4,99999999999999999999,0,0,0,,0,9", "cpu_milli: 99999999999999999999", "an integer"),
    "nine GPUs": ("pod-4,1,1,9,1000,,0,9", "num_gpu: 9", "an integer from 0 to 8"),
    "negative GPUs": ("pod-4,1,1,-1,1000,,0,9", "num_gpu: -1", "an integer from 0 to 8"),
    "more than a device": ("pod-4,1,1,1,1001,,0,9", "gpu_milli: 1001", "an integer from 1 to 1000"),
    "nothing of a device": ("pod-4,1,1,1,0,,0,9", "gpu_milli: 0", "an integer from 1 to 1000"),
    "parts of two devices": (
        "pod-4,1,1,2,500,,0,9",
        "gpu_milli: 500",
        "1000, several devices are taken whole",
    ),
    "milli without devices": ("pod-4,1,1,0,500,,0,9", "gpu_milli: 500", "0 without devices"),
    "left before it came": ("pod-4,1,1,0,0,,9,8", "deletion_time: 8", "not before creation_time 9"),
    "a name twice": ("pod-0,1,1,0,0,,0,9", "name: pod-0", "a name of its own, line 2 has it"),
    "no name": (",1,1,0,0,,0,9", "name", "a name"),
}


@pytest.mark.parametrize("fault", BAD_PODS)
def test_a_bad_row_is_located(tmp_path, fault):
    row, where, want = BAD_PODS[fault]
    nodes, pods = written(tmp_path, pods=PODS + row + "\n")
    with pytest.raises(InvalidInput) as caught:
        read_trace(nodes, pods)
    (problem,) = caught.value.problems
    assert problem.line == 6
    assert str(problem).startswith(f"{pods}:6: {where}")
    assert want in str(problem)


def test_all_problems_of_both_files_come_at_once(tmp_path):
    nodes = NODES + "node-2,1000,1,99,T4\n"
    paths = written(tmp_path, nodes=nodes, pods=PODS + "pod-4\npod-5\n")
    with pytest.raises(InvalidInput) as caught:
        read_trace(*paths)
    assert [(problem.file, problem.line) for problem in caught.value.problems] == [
        (str(paths[0]), 4),
        (str(paths[1]), 6),
        (str(paths[1]), 7),
    ]


def test_a_lenient_reader_skips_and_keeps_the_problems(tmp_path):
    trace = read_trace(*written(tmp_path, pods=PODS + "pod-4,1\npod-5,1000,1,0,0,,0,9\n"), lenient=True)
    assert [pod.name for pod in trace.pods] == ["pod-0", "pod-1", "pod-2", "pod-3", "pod-5"]
    assert [problem.line for problem in trace.skipped] == [6]


BAD_FILES = {
    "no such file": (None, "a CSV file that exists"),
    "empty": (b"", "a header with the columns name, cpu_milli, memory_mib, num_gpu, gpu_milli"),
    "another header": (b"a,b\n1,2\n", "a header with the columns name"),
    "no rows": (b"name,cpu_milli,memory_mib,num_gpu,gpu_milli\n", "at least one row below the header"),
    "not text": (b"name,cpu_milli\n\xff\xfe", "UTF-8 text (byte 15 is not)"),
    "an open quote": (
        b'name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"a,1,1,0,0\n',
        "CSV (unexpected end of data)",
    ),
}


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize("fault", BAD_FILES)
def test_a_bad_file_is_named(tmp_path, fault, lenient):
    content, want = BAD_FILES[fault]
    nodes, pods = written(tmp_path)
    pods.unlink()
    if content is not None:
        pods.write_bytes(content)
    with pytest.raises(InvalidInput) as caught:
        read_trace(nodes, pods, lenient=lenient)
    assert str(pods) in str(caught.value)
    assert want in str(caught.value)
