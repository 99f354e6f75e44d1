"""What does a command print in a simulated container?

Made from the pod, its node and the clock. The table of `nvidia-smi` has the layout of driver 550 and up; how busy the
GPUs are is what the pod's node says it gives, at rest otherwise.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import NamedTuple

from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj, annotations_of, labels_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import SECOND_US, rfc3339

_UNKNOWN = 127
_GPU = "nvidia.com/gpu"
_PRODUCT = "nvidia.com/gpu.product"
_MEMORY = "nvidia.com/gpu.memory"
_DRIVER, _CUDA = "580.82.07", "13.0"
# Memory in MiB and power limit in W where the node's labels do not say. Source: NVIDIA data sheets.
_MODELS: tuple[tuple[str, int, int], ...] = (
    ("B200", 183359, 1000),
    ("H200", 143771, 700),
    ("H100", 81559, 700),
    ("A100-SXM4-80GB", 81920, 400),
    ("A100", 40960, 400),
    ("L40S", 46068, 350),
    ("L4", 23034, 72),
    ("A10", 23028, 150),
    ("V100", 32768, 300),
    ("T4", 15360, 70),
)


class Result(NamedTuple):
    stdout: str = ""
    stderr: str = ""
    code: int = 0


class Place(NamedTuple):
    """Where a command runs, and when: now, unless it is told."""

    pod: Obj
    container: str
    node: str
    store: Store
    at_us: int = -1

    @property
    def now_us(self) -> int:
        return self.store.now_us if self.at_us < 0 else self.at_us


def run(argv: list[str], place: Place) -> Result:
    """The result; a command nobody knows is 127, as in a shell."""
    if not argv:
        return Result(stderr="no command given\n", code=126)
    name = argv[0].rpartition("/")[2]
    if name in ("sh", "bash", "ash") and len(argv) >= 3 and argv[1] in ("-c", "-lc", "-ec"):
        return _script(argv[2], place)
    known = _COMMANDS.get(name)
    if known is None:
        return Result(stderr=f"{argv[0]}: not found\n", code=_UNKNOWN)
    return known(argv[1:], place)


def printed(argv: list[str], place: Place) -> str:
    """What a container that runs this writes; empty where nobody knows the command."""
    if not argv:
        return ""
    result = run(argv, place)
    return "" if result.code == _UNKNOWN else result.stdout + result.stderr


def _script(text: str, place: Place) -> Result:
    """Commands one after another; no pipes, no variables, no loops."""
    out, err, code = "", "", 0
    for part in text.replace("&&", ";").replace("\n", ";").split(";"):
        try:
            argv = shlex.split(part)
        except ValueError as wrong:
            return Result(out, err + f"sh: {wrong}\n", 2)
        if argv[:1] == ["exit"]:
            return Result(out, err, int(argv[1]) if len(argv) > 1 and argv[1].isdigit() else code)
        if argv:
            result = run(argv, place)
            out, err, code = out + result.stdout, err + result.stderr, result.code
    return Result(out, err, code)


def _container(place: Place) -> Obj:
    spec = place.pod["spec"]
    every = (*spec["containers"], *(spec.get("initContainers") or ()))
    return next((c for c in every if c["name"] == place.container), {})


def _hostname(_: list[str], place: Place) -> Result:
    return Result(str(place.pod["spec"].get("hostname") or place.pod["metadata"]["name"]) + "\n")


def _env(_: list[str], place: Place) -> Result:
    lines = [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        f"HOSTNAME={place.pod['metadata']['name']}",
    ]
    gpus = gpus_of(place)
    if gpus:
        lines.append("NVIDIA_VISIBLE_DEVICES=" + ",".join(str(g) for g in gpus))
    lines += [
        f"{e['name']}={e.get('value', '')}"
        for e in _container(place).get("env") or ()
        if "valueFrom" not in e
    ]
    lines += ["KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "HOME=/root"]
    return Result("\n".join(lines) + "\n")


def _cat(arguments: list[str], place: Place) -> Result:
    for path in arguments:
        if path == "/etc/hostname":
            return _hostname([], place)
        if path == "/var/run/secrets/kubernetes.io/serviceaccount/namespace":
            return Result(str(place.pod["metadata"]["namespace"]))
        return Result(stderr=f"cat: {path}: No such file or directory\n", code=1)
    return Result()


def _date(_: list[str], place: Place) -> Result:
    return Result(rfc3339(place.now_us) + "\n")


def gpus_of(place: Place) -> list[int]:
    """Which GPUs of its node the container has: by number where the scheduler said so, else the first ones."""
    resources = _container(place).get("resources") or {}
    count = whole_ceil(
        (resources.get("limits") or {}).get(_GPU) or (resources.get("requests") or {}).get(_GPU) or 0
    )
    said = annotations_of(place.pod).get(GPU_INDEX_ANNOTATION, "")
    indexes = [int(i) for i in said.replace("-", ",").split(",") if i.strip().isdigit()]
    return indexes[:count] if len(indexes) >= count > 0 else list(range(count))


def _nvidia_smi(arguments: list[str], place: Place) -> Result:
    gpus = gpus_of(place)
    if not gpus:
        return Result(stderr="nvidia-smi: not found\n", code=_UNKNOWN)
    node: Obj = place.store.get(Key("Node", "", place.node)) or {}
    product, memory, power = _model(node)
    if arguments[:1] in (["-L"], ["--list-gpus"]):
        return Result("".join(f"GPU {i}: {product} (UUID: {_uuid(place, g)})\n" for i, g in enumerate(gpus)))
    return Result(_smi_table(place, gpus, product, memory, power))


def _model(node: Obj) -> tuple[str, int, int]:
    labels = labels_of(node)
    name = labels.get(_PRODUCT, "NVIDIA GPU")
    memory, power = 81559, 400
    for model, model_memory, model_power in _MODELS:
        if model in name:
            memory, power = model_memory, model_power
            break
    said = labels.get(_MEMORY, "")
    return name.replace("-", " ") if " " not in name else name, int(said) if said.isdigit() else memory, power


def _uuid(place: Place, gpu: int) -> str:
    import hashlib

    digest = hashlib.blake2b(f"{place.node}/{gpu}".encode(), digest_size=16).hexdigest()
    return f"GPU-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


_RULE = "+-----------------------------------------------------------------------------------------+"
_COLUMNS = "|-----------------------------------------+------------------------+----------------------+"
_HEADING = (
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
    "|                                         |                        |               MIG M. |",
    "|=========================================+========================+======================|",
)
_BELOW = "+-----------------------------------------+------------------------+----------------------+"


def _smi_table(place: Place, gpus: list[int], product: str, memory: int, power: int) -> str:
    versions = f"NVIDIA-SMI {_DRIVER:<22} Driver Version: {_DRIVER:<14} CUDA Version: {_CUDA:<8}"
    lines = [_asctime(place.now_us), _RULE, f"| {versions} |", _COLUMNS, *_HEADING]
    for row, gpu in enumerate(gpus):
        bus = f"00000000:{0x10 + 8 * gpu:02X}:00.0"
        used, watts = "1MiB", power // 6
        lines += [
            f"|{row:>4}  {product[:25]:<25}  On  |   {bus} Off |                    0 |".replace(
                "  On  |", "      On |"
            ),
            _usage(gpu, watts, power, used, memory),
            "|                                         |                        |             Disabled |",
            _BELOW,
        ]
    lines += [
        "",
        _RULE,
        "| Processes:                                                                              |",
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|=========================================================================================|",
        "|  No running processes found                                                             |",
        _RULE,
    ]
    return "\n".join(lines) + "\n"


def _usage(gpu: int, watts: int, power: int, used: str, memory: int) -> str:
    drawn, held = f"{watts}W / {power:>4}W", f"{used} / {memory:>6}MiB"
    return f"| N/A   {31 + gpu % 4}C    P0{drawn:>24} |{held:>23} |      0%      Default |"


def _asctime(now_us: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(now_us // SECOND_US, UTC).strftime("%a %b %e %H:%M:%S %Y")


_COMMANDS: dict[str, Callable[[list[str], Place], Result]] = {
    "nvidia-smi": _nvidia_smi,
    "hostname": _hostname,
    "env": _env,
    "printenv": _env,
    "cat": _cat,
    "date": _date,
    "echo": lambda arguments, _: Result(" ".join(arguments) + "\n"),
    "true": lambda _words, _place: Result(),
    "false": lambda _words, _place: Result(code=1),
    "pwd": lambda _words, _place: Result("/\n"),
    "whoami": lambda _words, _place: Result("root\n"),
    "id": lambda _words, _place: Result("uid=0(root) gid=0(root) groups=0(root)\n"),
    "ls": lambda _words, _place: Result("bin\ndev\netc\nhome\nproc\nroot\nsys\ntmp\nusr\nvar\n"),
    "sleep": lambda _words, _place: Result(),
}
