"""What does a script start, and how does it go on without srun?

The script itself is kept, every line of it, and mounted from a ConfigMap. Before it a few shell functions are read
(the prologue): they stand for srun, module and scontrol, and give it Slurm's variables. What they cannot do is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fairway.slurm.converting.layouts import Layout
from fairway.slurm.converting.notes import CHANGED, LOST, Note

TORCH, MPI, STEPS, PLAIN = "torch", "mpi", "steps", "plain"
"""torchrun or srun python; mpirun; another program by srun; nothing that spans nodes."""

_TORCH = re.compile(
    r"\b(torchrun|torch\.distributed\.(run|launch)|accelerate\s+launch|deepspeed|lightning)\b"
)
_MPI = re.compile(r"(^|[\s;&|(])(mpirun|mpiexec)\b|\bsrun\b.*--mpi[= ](?!none)")
_SRUN = re.compile(r"(^|[\s;&|(])srun\b(?P<rest>.*)")
_PYTHON = re.compile(r"\b(python[\d.]*|torchrun|ipython)\b|\.py\b")
_SLURM_COMMANDS = ("sbatch", "squeue", "scancel", "sacct", "sinfo", "salloc", "sbcast", "sattach", "sgather")
_COMMAND = re.compile(
    rf"(^|[\s;&|($`'\"])({'|'.join(_SLURM_COMMANDS)}|scontrol(?!\s+show\s+hostnames?\b))(?=[\s;&|)`'\"]|$)"
)
_MODULE = re.compile(r"^\s*(module|ml)\s+(.*)")
_VARIABLE = re.compile(r"\$\{?(SLURM_\w+)")
KNOWN = frozenset(
    """SLURM_JOB_ID SLURM_JOBID SLURM_JOB_NAME SLURM_JOB_NUM_NODES SLURM_NNODES SLURM_NTASKS SLURM_NPROCS
    SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK SLURM_CPUS_ON_NODE SLURM_GPUS_ON_NODE SLURM_NODEID SLURM_PROCID
    SLURM_LOCALID SLURM_JOB_PARTITION SLURM_JOB_ACCOUNT SLURM_SUBMIT_DIR SLURM_JOB_NODELIST SLURM_NODELIST
    SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_MAX
    SLURM_ARRAY_TASK_STEP SLURM_HET_GROUP SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_JOB_QOS SLURM_SUBMIT_HOST
    SLURMD_NODENAME""".split()  # noqa: SIM905
)
"""What the prologue sets."""


def commands(text: str) -> Iterable[tuple[int, str]]:
    """Lines that do something, with what continues them; the number is the first one's."""
    held, start = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not held and line.lstrip().startswith("#"):
            continue
        start = start if held else number
        held += line
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        if held.strip():
            yield start, held.strip()
        held = ""


def launcher_of(text: str) -> str:
    """By the script's own commands; `srun` counts as torch where it starts Python."""
    lines = [line for _, line in commands(text)]
    if any(_TORCH.search(line) for line in lines):
        return TORCH
    if any(_MPI.search(line) for line in lines):
        return MPI
    steps = [found["rest"] for line in lines if (found := _SRUN.search(line))]
    if not steps:
        return PLAIN
    return TORCH if any(_PYTHON.search(step) for step in steps) else STEPS


def script_notes(file: str, text: str, launcher: str, nodes: int) -> list[Note]:
    """Lines of the script that mean something else, or nothing, inside a pod."""
    notes = []
    steps = 0
    for number, line in commands(text):
        module, other = _MODULE.match(line), _COMMAND.search(line)
        if (module is not None and module[1] == "module") or (module and len(module[2].split()) == 1):
            why = "environment modules are not there: `module` does nothing"
            notes.append(Note(file, number, CHANGED, line[:60], why, "Have the software in the image"))
        if other is not None:
            why = f"{other[2]} asks a slurmctld, and there is none"
            notes.append(Note(file, number, LOST, line[:60], why, "Use kubectl, or a workflow engine"))
        steps += bool(_SRUN.search(line))
        if _SRUN.search(line) and re.search(r"--(multi-prog|het-group|pack-group)|\s&\s*$|(^|\s)-r\b", line):
            why = "steps side by side in one allocation are processes of one pod here"
            notes.append(Note(file, number, CHANGED, line[:60], why, "Make them parts of a JobSet"))
        for name in dict.fromkeys(_VARIABLE.findall(line)):
            if name not in KNOWN:
                why = f"{name} is not set in a pod"
                notes.append(Note(file, number, LOST, line[:60], why, "Set it in env, or do without"))
    if nodes > 1 and launcher in (TORCH, STEPS):
        why = "the whole script runs in each pod, not its srun lines alone"
        do = "Guard what must happen once with: if [ $SLURM_NODEID = 0 ]"
        notes.append(Note(file, 1, CHANGED, "the script's body", why, do))
    return notes


PROLOGUE = """\
# Slurm's words for a script that runs in a pod. Written by fairway slurm convert.
export SLURM_JOB_ID="${SLURM_JOB_ID:-${POD_NAME:-1}}" SLURM_JOBID="${POD_NAME:-1}"
export SLURM_NODEID="${PET_NODE_RANK:-${JOB_COMPLETION_INDEX:-${RANK:-0}}}" SLURM_LOCALID="${LOCAL_RANK:-0}"
export SLURM_PROCID="${RANK:-$SLURM_NODEID}" SLURMD_NODENAME="${NODE_NAME:-$(hostname)}"
export SLURM_JOB_NODELIST="${MASTER_ADDR:-$(hostname)}" SLURM_NODELIST="${MASTER_ADDR:-$(hostname)}"
export SLURM_SUBMIT_DIR="${SLURM_SUBMIT_DIR:-$PWD}" SLURM_SUBMIT_HOST=kubernetes
if [ -n "${SLURM_ARRAY_TASK_COUNT:-}" ]; then
  at="${SLURM_ARRAY_AT:-${JOB_COMPLETION_INDEX:-0}}"
  if [ -n "${SLURM_ARRAY_INDEXES:-}" ]; then
    SLURM_ARRAY_TASK_ID="$(echo "$SLURM_ARRAY_INDEXES" | cut -d, -f$((at + 1)))"
  else
    SLURM_ARRAY_TASK_ID=$((SLURM_ARRAY_TASK_MIN + at * SLURM_ARRAY_TASK_STEP))
  fi
  export SLURM_ARRAY_TASK_ID SLURM_ARRAY_JOB_ID="$SLURM_JOB_NAME"
fi
module() { :; }
ml() { :; }
scontrol() {
  case "$1 $2" in
    "show hostname"|"show hostnames") echo "$SLURM_JOB_NODELIST" ;;
    *) echo "scontrol: there is no slurmctld" >&2; return 1 ;;
  esac
}
# srun [options] command: the command, once in this pod; Python with several tasks through torchrun.
# `srun -w HEAD hostname -I` is HEAD's name, in every pod.
srun() {
  local where=""
  while [ $# -gt 0 ]; do
    case "$1" in
      --) shift; break ;;
      -w|--nodelist) where="$2"; shift 2 ;;
      --nodelist=*) where="${1#*=}"; shift ;;
      --*=*) shift ;;
      --@LONG@) shift 2 ;;
      --*) shift ;;
      -[@SHORT@]) shift 2 ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  if [ -n "$where" ] && [ "$1" = hostname ]; then echo "$where"; return; fi
  if [ -n "${OMPI_MCA_orte_default_hostfile:-}" ]; then mpirun -n "$SLURM_NTASKS" "$@"; return; fi
  case "$1" in
    python*)
      if [ "${SLURM_NTASKS:-1}" -gt 1 ]; then
        shift
        while [ "${1#-}" != "$1" ] && [ "$1" != -m ]; do shift; done
        torchrun --nnodes="$SLURM_NNODES" --node-rank="$SLURM_NODEID" --nproc-per-node="$SLURM_NTASKS_PER_NODE" \\
          --master-addr="${MASTER_ADDR:-127.0.0.1}" --master-port="${MASTER_PORT:-29500}" "$@"
        return
      fi ;;
  esac
  "$@"
}
"""


def prologue() -> str:
    """The functions, with srun's own options that take a value in another word."""
    from fairway.slurm.commands.getopt import job_options

    table = [option for option in job_options("srun") if option.argument == "required"]
    long = "|--".join(sorted(option.name for option in table if option.name))
    short = "".join(sorted(option.letter for option in table if option.letter))
    return PROLOGUE.replace("@LONG@", long).replace("@SHORT@", short)


def variables(layout: Layout, asked: dict[str, str]) -> dict[str, str]:
    """What is known before the pod runs."""
    count = str(layout.nodes)
    tasks = str(layout.tasks * layout.nodes)
    found = {
        "SLURM_JOB_NUM_NODES": count,
        "SLURM_NNODES": count,
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": str(layout.tasks),
        "SLURM_CPUS_ON_NODE": str(layout.cpus),
        "SLURM_CPUS_PER_TASK": str(max(layout.cpus // layout.tasks, 1)),
    }
    if layout.gpus:
        found |= {
            "SLURM_GPUS_ON_NODE": str(layout.gpus),
            "SLURM_GPUS_PER_NODE": str(layout.gpus),
            "SLURM_GPUS": str(layout.gpus * layout.nodes),
        }
    return found | {name: value for name, value in asked.items() if value}
