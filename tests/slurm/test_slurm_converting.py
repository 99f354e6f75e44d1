"""What a Slurm site becomes: nothing asked for is lost without a word, and what comes out runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairway.cli.main import main
from fairway.errors import InvalidInput
from fairway.kube.quantity import whole_ceil
from fairway.slurm.administration import Slurmctld
from fairway.slurm.commands.getopt import job_options
from fairway.slurm.commands.site import Site
from fairway.slurm.converting import launching
from fairway.slurm.converting.converting import Conversion, convert
from fairway.slurm.converting.jobs import Choices
from fairway.slurm.converting.notes import LOST, fixed_notes
from fairway.slurm.converting.scripts import read_script
from fairway.slurm.model.job import Job
from fairway.slurm.sitefolder import read_site

ROOT = Path(__file__).parents[2]
SITE = ROOT / "examples" / "19-leaving-slurm" / "site"
SCRIPTS = ROOT / "examples" / "19-leaving-slurm" / "scripts"

# One legal value of every option that takes one.
VALUES = {
    "array": "0-3", "begin": "now+1hour", "chdir": "/home/ann", "core-spec": "1", "cores-per-socket": "2",
    "cluster": "all", "clusters": "all",
    "cpu-freq": "high", "cpus-per-gpu": "2", "cpus-per-task": "2", "deadline": "now+2days", "delay-boot": "5",
    "dependency": "afterok:7", "distribution": "block", "exclude": "a1", "export": "ALL", "extra-node-info": "2:4:1",
    "gid": "0", "gpu-bind": "closest", "gpu-freq": "high", "gpus": "2", "gpus-per-node": "1", "gpus-per-socket": "1",
    "gpus-per-task": "1", "gres": "gpu:1", "gres-flags": "enforce-binding", "hint": "nomultithread",
    "kill-on-invalid-dep": "yes", "licenses": "matlab", "mail-type": "END", "mem": "4G", "mem-bind": "local",
    "mem-per-cpu": "1G", "mem-per-gpu": "1G", "mincpus": "2", "network": "x", "nice": "5", "nodefile": "/tmp/x",
    "nodelist": "a1", "nodes": "2", "ntasks": "4", "ntasks-per-core": "1", "ntasks-per-gpu": "1",
    "ntasks-per-node": "2", "ntasks-per-socket": "1", "ntasks-per-tres": "1", "open-mode": "append",
    "priority": "10", "propagate": "ALL", "signal": "USR1@60", "sockets-per-node": "1", "switches": "1",
    "tasks-per-node": "2", "thread-spec": "1", "threads-per-core": "1", "time": "10", "time-min": "5", "tmp": "1G",
    "uid": "0", "acctg-freq": "30", "wait-all-nodes": "1", "profile": "none", "power": "level", "get-user-env": None,
    "exclusive": None, "no-kill": None,
}  # fmt: skip
# Options that become fields of the objects, checked below or in the next tests.
CARRIED = frozenset(
    """account array chdir constraint cpus-per-gpu cpus-per-task dependency exclude exclusive gpus gpus-per-node
    gpus-per-socket gpus-per-task gres job-name mem mem-per-cpu mem-per-gpu mincpus no-requeue nodelist nodes ntasks
    ntasks-per-gpu ntasks-per-node ntasks-per-tres partition prefer qos requeue switches tasks-per-node time
    wrap""".split()  # noqa: SIM905
)


def converted(tmp_path: Path, *lines: str, body: str = "true", conf: Path | None = None) -> Conversion:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines) + body + "\n")
    return convert([script], Choices(), conf=conf)


def job_of(made: Conversion) -> dict[str, Any]:
    (one,) = made.scripts
    return one.objects[-1]


def test_every_option_of_sbatch_is_carried_or_spoken_of(tmp_path: Path) -> None:
    names = {option.name for option in job_options("sbatch") if option.name}
    assert CARRIED | set(fixed_notes()) == names
    assert not CARRIED & set(fixed_notes())
    for option in job_options("sbatch"):
        if option.name not in fixed_notes() or option.name in ("help", "usage", "version", "nodefile"):
            continue
        value = VALUES.get(option.name, "x" if option.argument == "required" else None)
        text = f"--{option.name}" + (f"={value}" if value is not None and option.argument != "none" else "")
        lines = [text, "--ntasks=2"] if option.name == "ntasks-per-core" else [text]
        made = converted(tmp_path, *lines)
        (note,) = [note for note in made.notes if note.text.startswith(f"--{option.name}")]
        assert (note.line, note.kind) == (2, fixed_notes()[option.name][0])
        assert made.loses == (note.kind == LOST)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--partition=none", "invalid partition"),
        ("--mem=lots", "Invalid --mem specification"),
        ("--no-such-thing", "unrecognized option '--no-such-thing'"),
        ("--gres=gpu:h100:64", "Requested node configuration is not available"),
        ("--array=9-1", "Invalid job array specification"),
        ("--constraint=moon", "Invalid feature specification"),
        ("--time", "requires an argument"),
        ("--nodes=3-1", "Maximum node count 1 is less than minimum node count 3"),
    ],
)
def test_what_sbatch_refuses_is_refused_at_its_line(tmp_path: Path, line: str, said: str) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH -n1\n#SBATCH {line}\ntrue\n")
    good = tmp_path / "good.sh"
    good.write_text("#!/bin/bash\ntrue\n")
    with pytest.raises(InvalidInput) as refused:
        convert([good, script], Choices(), conf=SITE)
    (problem,) = refused.value.problems
    assert said.lower() in problem.expected.lower() and (problem.file, problem.line) == (str(script), 3)
    out = tmp_path / "out"
    assert main(["slurm", "convert", str(good), str(script), "--conf", str(SITE), "--to", str(out)]) == 2
    assert not out.exists()


@pytest.mark.parametrize(
    ("lines", "body", "kind"),
    [
        (["-N1", "--gpus-per-node=8"], "torchrun --standalone train.py", "Job"),
        (["-N2", "--gpus-per-node=8"], "srun torchrun train.py", "PyTorchJob"),
        (["-N2", "--ntasks-per-node=8", "--gpus-per-node=8"], "srun \\\n  --mpi=none python train.py", "PyTorchJob"),
        (["-N2", "-n8", "-a 0-3"], "srun python train.py", "JobSet"),
        (["-N2", "-n8"], "mpirun ./a.out", "MPIJob"),
        (["-N2", "-n8"], "srun --mpi=pmix ./a.out", "MPIJob"),
        (["-N2", "-n8"], "srun ./a.out", "JobSet"),
        (["-a 1,5,9%2"], "./one", "Job"),
        (["-n1", "hetjob", "-n2"], "srun ./a.out", "JobSet"),
    ],
)  # fmt: skip
def test_the_kind_goes_by_what_the_script_starts(
    tmp_path: Path, lines: list[str], body: str, kind: str
) -> None:
    assert job_of(converted(tmp_path, *lines, body=body))["kind"] == kind


def test_an_array_keeps_its_indexes_and_throttle(tmp_path: Path) -> None:
    job = job_of(converted(tmp_path, "--array=1,5,9%2", "--time=30", body="./one"))
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (3, 2)
    assert job["spec"]["backoffLimitPerIndex"] == 0 and job["spec"]["maxFailedIndexes"] == 3
    assert job["spec"]["template"]["spec"]["activeDeadlineSeconds"] == 1800
    for number, index in enumerate(("1", "5", "9")):
        assert _run(job, "echo $SLURM_ARRAY_TASK_ID", JOB_COMPLETION_INDEX=str(number)) == index
    stepped = job_of(converted(tmp_path, "--array=10-30:10", body="./one"))
    assert _run(stepped, "echo $SLURM_ARRAY_TASK_ID", JOB_COMPLETION_INDEX="2") == "30"


def _run(job: dict[str, Any], script: str, **extra: str) -> str:
    """The script under the prologue, in a shell of this machine, with the pod's environment."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    env = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    text = launching.prologue() + script
    found = subprocess.run(
        ["bash", "-c", text],
        check=False,
        env={"PATH": "/usr/bin:/bin"} | env | extra,
        capture_output=True,
        text=True,
    )
    assert not found.stderr
    return found.stdout.strip()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("srun echo a b", "a b"),
        ("srun -n 2 --mem 4G --exclusive -l -- echo a", "a"),
        ("srun --ntasks=2 -c4 echo a", "a"),
        ("module load cuda; echo $SLURM_CPUS_PER_TASK", "4"),
        ("scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1", "leader"),
        ("srun --nodes=1 --ntasks=1 -w leader hostname --ip-address", "leader"),
        ("srun -N1 --nodelist=leader hostname -I", "leader"),
        ("scontrol requeue 7 2> /dev/null || echo no", "no"),
        ("torchrun() { echo torchrun $#; }; srun python -u train.py --lr 1", "python"),
    ],
)
def test_the_prologue_stands_for_slurm(tmp_path: Path, line: str, said: str) -> None:
    job = job_of(converted(tmp_path, "-c4", body="./one"))
    if "python" in line:
        line = "python() { echo python; }; " + line
    assert _run(job, line, MASTER_ADDR="leader") == said


@pytest.mark.parametrize(
    ("line", "is_lost"),
    [
        ("scontrol show hostnames $SLURM_JOB_NODELIST", False),
        ("trap 'scontrol requeue $SLURM_JOB_ID' USR1", True),
        ("x=$(scontrol show job $SLURM_JOB_ID)", True),
        ("./sbatch_report", False),
    ],
)
def test_commands_that_ask_a_slurmctld_are_spoken_of(tmp_path: Path, line: str, is_lost: bool) -> None:
    (one,) = converted(tmp_path, "-N1", body=line).scripts
    assert [note.kind for note in one.notes if note.text == line] == [LOST] * is_lost


def test_one_task_without_a_configuration_is_one_pod_and_no_more_is_said(tmp_path: Path) -> None:
    (one,) = converted(tmp_path, "-n1 --gpus=2").scripts
    assert not one.notes


def requests(random: Random) -> Iterator[str]:
    """Some directives that the site of the example takes."""
    yield f"-N{random.choice((1, 1, 2, 3))}"
    yield f"--ntasks-per-node={random.choice((1, 2, 4))}"
    yield f"-c{random.choice((1, 2, 8))}"
    yield random.choice(("--gres=gpu:1", "--gpus-per-node=2", "--gpus-per-task=1", "--gres=gpu:h100:4", ""))
    yield random.choice(("--mem=8G", "--mem-per-cpu=1G", ""))
    yield "-p train -A vision"


@pytest.mark.parametrize("seed", range(40))
def test_pods_ask_for_what_slurm_would_give(tmp_path: Path, seed: int) -> None:
    """The engine's own allocation is the oracle: nodes, CPUs, GPUs and memory."""
    lines = [line for line in requests(Random(seed)) if line]
    made = converted(tmp_path, *lines, body="srun ./a.out", conf=SITE)
    ctl = _controller()
    script = tmp_path / "job.sh"
    request = read_script(str(script), script.read_text(), Site(_controller())).parts[0].request
    job: Job = ctl.submit(request, "root")
    ctl.advance(ctl.now_us + 120_000_000)
    assert job.state == "RUNNING"
    pods, each = _pods(job_of(made))
    assert pods == len(job.nodes)
    assert pods * each.get("nvidia.com/gpu", 0) == job.alloc_tres.get("gres/gpu", 0)
    assert pods * each["cpu"] == job.alloc_tres["cpu"]
    assert pods * each["memory"] == job.alloc_tres["mem"] << 20


def _controller() -> Slurmctld:
    return read_site(SITE).controller(1_800_000_000_000_000, enforce=False)


def _pods(job: dict[str, Any]) -> tuple[int, dict[str, int]]:
    spec = job["spec"]
    if job["kind"] == "JobSet":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    asked = container["resources"]["requests"]
    return spec["completions"], {name: whole_ceil(value) for name, value in asked.items()}


def test_quotas_of_all_accounts_are_the_machines_no_more_no_less() -> None:
    made = convert([SITE], Choices())
    assert made.site is not None
    given: dict[tuple[str, str], int] = {}
    for obj in made.site.objects:
        for group in obj.get("spec", {}).get("resourceGroups") or ():
            for flavor in group["flavors"]:
                for one in flavor["resources"]:
                    key = (flavor["name"], one["name"])
                    given[key] = given.get(key, 0) + whole_ceil(one["nominalQuota"])
    for kind in made.site.kinds:
        for resource, count in kind.capacity.items():
            if resource != "ephemeral-storage":
                assert given[kind.name, resource] == count * len(kind.nodes)


def test_malformed_configuration_is_located(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=x\nNodeName=n[1-2 CPUs\n")
    assert main(["slurm", "convert", str(tmp_path)]) == 2
    assert "slurm.conf:2" in capsys.readouterr().err


def test_a_whole_site_and_its_scripts_run_as_they_come_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "k8s"
    assert main(["slurm", "convert", str(SITE), str(SCRIPTS), "--to", str(out)]) == 1
    kept = SITE.parent / "k8s"
    for file in sorted(path.relative_to(kept) for path in kept.rglob("*.yaml")):
        if file.name != "scenario.yaml":
            assert (out / file).read_text() == (kept / file).read_text(), f"convert anew: {file}"
    capsys.readouterr()
    assert main(["simulate", str(out), "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["summary"]["figures"]
    assert told["pods"]["waiting"] == 0 and not told["pods"]["evicted"]
    # The two workers of the MPIJob are stopped when its launcher is done.
    assert told["pods"]["total"] - told["pods"]["succeeded"] == 2
