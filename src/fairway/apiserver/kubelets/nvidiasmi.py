"""What does `nvidia-smi` show in a simulated container? The GPUs the pod has, as its node's labels name them.

The table has the layout of driver 550 and up. How busy the GPUs are is not known here: they are shown at rest.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from fairway.apiserver.kubelets.place import Place, container_of
from fairway.cluster.devices import GPU_INDEX_ANNOTATION
from fairway.kube.integers import natural
from fairway.kube.objects import Key, Obj, annotations_of, labels_of
from fairway.kube.quantity import whole_ceil
from fairway.kube.timestamps import SECOND_US

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


def gpus_of(place: Place) -> list[int]:
    """Which GPUs of its node the container has: by number where the scheduler said so, else the first ones."""
    resources = container_of(place).get("resources") or {}
    count = whole_ceil(
        (resources.get("limits") or {}).get(_GPU) or (resources.get("requests") or {}).get(_GPU) or 0
    )
    said = annotations_of(place.pod).get(GPU_INDEX_ANNOTATION, "")
    indexes = [n for part in said.replace("-", ",").split(",") if (n := natural(part.strip())) is not None]
    return indexes[:count] if len(indexes) >= count > 0 else list(range(count))


def shown(arguments: list[str], place: Place) -> str:
    """What it prints; empty where there is no GPU, and with it no driver."""
    gpus = gpus_of(place)
    if not gpus:
        return ""
    node: Obj = place.store.get(Key("Node", "", place.node)) or {}
    product, memory, power = _model(node)
    if arguments[:1] in (["-L"], ["--list-gpus"]):
        return "".join(f"GPU {i}: {product} (UUID: {_uuid(place, g)})\n" for i, g in enumerate(gpus))
    return _smi_table(place, gpus, product, memory, power)


def _model(node: Obj) -> tuple[str, int, int]:
    labels = labels_of(node)
    name = labels.get(_PRODUCT, "NVIDIA GPU")
    memory, power = 81559, 400
    for model, model_memory, model_power in _MODELS:
        if model in name:
            memory, power = model_memory, model_power
            break
    said = natural(labels.get(_MEMORY))
    return name.replace("-", " ") if " " not in name else name, memory if said is None else said, power


def _uuid(place: Place, gpu: int) -> str:
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
    lines = [_asctime(place.at_us), _RULE, f"| {versions} |", _COLUMNS, *_HEADING]
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
    return datetime.fromtimestamp(now_us // SECOND_US, UTC).strftime("%a %b %e %H:%M:%S %Y")
