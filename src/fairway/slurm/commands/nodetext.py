"""What Slurm's commands print about a node: its state in three forms, its GRES and what of them is used."""

from __future__ import annotations

from fairway.slurm.commands.site import Site
from fairway.slurm.model.node import Gres, Node
from fairway.slurm.words import sizes

BASE = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
FLAGS = {
    "NET": 0x10,
    "RESERVED": 0x20,
    "UNDRAIN": 0x40,
    "CLOUD": 0x80,
    "RESUME": 0x100,
    "DRAIN": 0x200,
    "COMPLETING": 0x400,
    "NOT_RESPONDING": 0x800,
    "POWERED_DOWN": 0x1000,
    "FAIL": 0x2000,
    "POWERING_UP": 0x4000,
    "MAINTENANCE": 0x8000,
    "REBOOT_REQUESTED": 0x10000,
    "POWERING_DOWN": 0x40000,
    "POWER_DOWN": 0x80000,
    "REBOOT_ISSUED": 0x100000,
    "PLANNED": 0x200000,
    "INVALID_REG": 0x400000,
}
"""State flags in Slurm's bits: sinfo sorts by them."""

_COMPACT = {
    "ALLOCATED": "ALLOC",
    "COMPLETING": "COMP",
    "DRAINING": "DRNG",
    "DRAINED": "DRAIN",
    "FAILING": "FAILG",
    "FUTURE": "FUTR",
    "MIXED": "MIX",
    "PERFCTRS": "NPC",
    "PLANNED": "PLND",
    "POWER_DOWN": "POW_DN",
    "POWER_UP": "POW_UP",
    "RESERVED": "RESV",
    "UNKNOWN": "UNK",
    "REBOOT": "BOOT",
}
_SIGNS = (
    ("MAINTENANCE", "$"),
    ("REBOOT_ISSUED", "^"),
    ("REBOOT_REQUESTED", "@"),
    ("POWERING_UP", "#"),
    ("POWERING_DOWN", "%"),
    ("POWERED_DOWN", "~"),
    ("POWER_DOWN", "!"),
    ("NOT_RESPONDING", "*"),
)


_COMPLETE = (
    "CLOUD", "COMPLETING", "DRAIN", "FAIL", "INVALID_REG", "MAINTENANCE", "POWER_DOWN", "POWERED_DOWN",
    "POWERING_DOWN", "POWERING_UP", "REBOOT_ISSUED", "REBOOT_REQUESTED", "RESERVED", "NOT_RESPONDING", "PLANNED",
)  # fmt: skip
"""Flags as they follow the base state in full."""


def flags_of(node: Node) -> set[str]:
    flags = {"MAINTENANCE" if flag == "MAINT" else flag for flag in node.flags}
    if not node.responding:
        flags.add("NOT_RESPONDING")
    if node.completing:
        flags.add("COMPLETING")
    return flags


def base_state(node: Node) -> str:
    return node.shown


def state_number(node: Node) -> int:
    return BASE.index(base_state(node)) | sum(FLAGS.get(flag, 0) for flag in flags_of(node))


def long_state(node: Node) -> str:
    """`sinfo %T` in capitals: one word for the state and its flags, with a sign behind it."""
    base, flags = base_state(node), flags_of(node)
    busy = base in ("ALLOCATED", "MIXED")
    sign = next((s for flag, s in _SIGNS if flag in flags), "")
    if "INVALID_REG" in flags:
        return "INVAL"
    if "MAINTENANCE" in flags and not ("DRAIN" in flags or busy or base == "DOWN"):
        return "MAINT*" if "NOT_RESPONDING" in flags else "MAINT"
    if flags & {"REBOOT_REQUESTED", "REBOOT_ISSUED"} and not busy:
        return "REBOOT^" if "REBOOT_ISSUED" in flags else "REBOOT*" if "NOT_RESPONDING" in flags else "REBOOT"
    if "DRAIN" in flags:
        return ("DRAINING" if busy or "COMPLETING" in flags else "DRAINED") + sign
    if "FAIL" in flags:
        word = "FAILING" if "COMPLETING" in flags or base == "ALLOCATED" else "FAIL"
        return word + ("*" if "NOT_RESPONDING" in flags else "")
    if base == "ALLOCATED":
        return base + (sign or ("+" if "COMPLETING" in flags else ""))
    if "COMPLETING" in flags and base != "DOWN":
        return "COMPLETING" + sign
    if base == "IDLE" and not sign:
        return next((w for w in ("RESERVED", "PLANNED") if w in flags), "IDLE")
    if base == "MIXED" and not sign and "PLANNED" in flags:
        return "MIXED-"
    return base + sign


def compact_state(node: Node) -> str:
    state = long_state(node)
    word = state.rstrip("$^@#%~!*+-")
    return _COMPACT.get(word, word) + state[len(word) :]


def complete_state(node: Node, base: str = "") -> str:
    """`IDLE+DRAIN`: the base state and every flag."""
    flags = flags_of(node)
    return "+".join([base or base_state(node), *(flag for flag in _COMPLETE if flag in flags)])


def gres_text(node: Node) -> str:
    return node.conf.gres_text or "(null)"


def gres_used_text(site: Site, node: Node) -> str:
    """`gpu:h100:7(IDX:0-6)`; GRES the node has not are told as `gpu:0`."""
    return ",".join(part for name in site.gres_names for part in _used(node, name)) or "(null)"


def _used(node: Node, name: str) -> list[str]:
    gres = next((g for g in node.conf.gres if g.name == name), None)
    if gres is None:
        return [f"{name}:0"]
    bits = node.used_gres.get(name, 0)
    return [_used_of(gres, kind, bits & gres.mask(kind)) for kind in dict.fromkeys(gres.types)]


def _used_of(gres: Gres, kind: str, mine: int) -> str:
    where = f"(IDX:{bit_list(mine) or 'N/A'})" if gres.files or gres.name == "gpu" else ""
    return (
        f"{gres.name}:{kind}:{mine.bit_count()}{where}" if kind else f"{gres.name}:{mine.bit_count()}{where}"
    )


def bit_list(bits: int) -> str:
    """`0-3,6` of a bitmap."""
    from fairway.slurm.commands.jobtext import index_list

    return index_list(at for at in range(bits.bit_length()) if bits >> at & 1)


def cfg_tres(node: Node) -> dict[str, int]:
    conf = node.conf
    tres = {"cpu": conf.cpus, "mem": conf.real_memory, "billing": conf.cpus}
    for gres in conf.gres:
        tres[f"gres/{gres.name}"] = gres.count
        for kind in dict.fromkeys(gres.types):
            if kind:
                tres[f"gres/{gres.name}:{kind}"] = gres.types.count(kind)
    return tres


def alloc_tres(node: Node) -> dict[str, int]:
    tres = {"cpu": node.used_cpus, "mem": node.used_mem}
    for gres in node.conf.gres:
        bits = node.used_gres.get(gres.name, 0)
        tres[f"gres/{gres.name}"] = bits.bit_count()
        for kind in dict.fromkeys(gres.types):
            if kind:
                tres[f"gres/{gres.name}:{kind}"] = (bits & gres.mask(kind)).bit_count()
    return tres


def tracked_text(site: Site, tres: dict[str, int]) -> str:
    names = set(site.tres_names)
    return sizes.tres_text((n, tres[n]) for n in site.tres_order(tres) if tres[n] and n in names)
