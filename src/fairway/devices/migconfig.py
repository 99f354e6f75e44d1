"""Which instances does a named MIG configuration ask for on each card? mig-parted's files, in its words.

A file that says nothing wrong names configurations; MIG Manager makes one from the cards it finds where nobody gives
it another: `all-disabled`, `all-enabled`, `all-balanced` and `all-<profile>`. What becomes of the cards: `migapplying`.

Source: NVIDIA/mig-parted 0.15 api/spec/v1, pkg/types, pkg/mig/builder, cmd/nvidia-mig-parted/assert; go-nvlib
pkg/nvlib/device/mig_profile.go; sigs.k8s.io/yaml and encoding/json for what does not decode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairway.catalog.gpus import GpuModel
from fairway.errors import UserError
from fairway.kube.yamltext import first_value

_BALANCED: Final = {7: {1: 2, 2: 1, 3: 1}, 4: {1: 2, 2: 1}}
_KEYS: Final = ("device-filter", "devices", "mig-enabled", "mig-devices")
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_ATTRIBUTE: Final = re.compile(r"[a-zA-Z0-9.]*")
# Bytes of a file that are read; a ConfigMap has at most 1 MiB.
_BYTES_MOST: Final = 2**20


class MigConfigError(UserError):
    """What nvidia-mig-parted says before it exits."""


@dataclass(frozen=True, slots=True)
class MigSpec:
    """One entry of a configuration. `devices` None: all of them. `counts`: as written, a profile with 0 too."""

    devices: tuple[int, ...] | None
    filters: tuple[str, ...]
    enabled: bool
    counts: Mapping[str, int]

    def concerns(self, index: int, device_id: str) -> bool:
        """Unlike upstream: what a filter says of the subsystem (`:0x…`) is not held against the card."""
        if self.devices is not None and index not in self.devices:
            return False
        return not self.filters or _id(device_id) in [_id(f.partition(":")[0]) for f in self.filters]


def _id(text: str) -> int:
    """A device's number; -1 for what is none, which is no card's."""
    try:
        return int(text, 0)
    except ValueError:
        return -1


MigConfigs = dict[str, tuple[MigSpec, ...]]


def read_mig_configs(text: str) -> MigConfigs:
    """The configurations of a file. Raises: MigConfigError."""
    if len(text) > _BYTES_MOST:
        raise MigConfigError(f"error parsing config file: {len(text)} bytes, expected at most {_BYTES_MOST}")
    prefix = "error parsing config file: unmarshal error: error"
    try:
        raw = first_value(text)
    except ValueError as wrong:
        raise MigConfigError(f"{prefix} converting YAML to JSON: yaml: {wrong}") from None
    try:
        return _spec(raw)
    except MigConfigError as wrong:
        raise MigConfigError(f"{prefix} unmarshaling JSON: while decoding JSON: {wrong}") from None


def _cannot(value: Any, into: str) -> MigConfigError:
    """encoding/json's words for a value of the wrong type."""
    kind = "array"
    if isinstance(value, bool):
        kind = "bool"
    elif isinstance(value, str):
        kind = "string"
    elif isinstance(value, dict):
        kind = "object"
    elif isinstance(value, int | float):
        kind = f"number {value}" if into == "int" else "number"
    return MigConfigError(f"json: cannot unmarshal {kind} into Go value of type {into}")


def _spec(raw: Any) -> MigConfigs:
    raw = {} if raw is None else raw
    if not isinstance(raw, dict):
        raise _cannot(raw, "map[string]json.RawMessage")
    if raw and "version" not in raw:
        raise MigConfigError("unable to parse with missing 'version' field")
    version = raw.get("version")
    if version is not None and not isinstance(version, str):
        raise _cannot(version, "string")
    if version != "v1":
        raise MigConfigError(f"unknown version: {version or ''}")
    unexpected = next((k for k in raw if k not in ("version", "mig-configs")), None)
    if unexpected is not None:
        raise MigConfigError(f"unexpected field: {unexpected}")
    if "mig-configs" not in raw:
        return {}
    configs = raw["mig-configs"] or {}
    if not isinstance(configs, dict):
        raise _cannot(configs, "map[string]v1.MigConfigSpecSlice")
    found: MigConfigs = {}
    for name, entries in configs.items():
        if entries is not None and not isinstance(entries, list):
            raise _cannot(entries, "v1.MigConfigSpecSlice")
        found[str(name)] = tuple(_entry(e) for e in entries or ())
    if not found:
        raise MigConfigError("at least one entry in 'mig-configs' is required")
    empty = next((name for name, entries in found.items() if not entries), None)
    if empty is not None:
        raise MigConfigError(f"at least one entry in '{empty}' is required")
    return found


def _entry(raw: Any) -> MigSpec:
    raw = {} if raw is None else raw
    if not isinstance(raw, dict):
        raise _cannot(raw, "map[string]json.RawMessage")
    for required in ("devices", "mig-enabled"):
        if required not in raw:
            raise MigConfigError(f"missing required field: {required}")
    unexpected = next((k for k in raw if k not in _KEYS), None)
    if unexpected is not None:
        raise MigConfigError(f"unexpected field: {unexpected}")
    enabled = raw["mig-enabled"]
    if enabled is not None and not isinstance(enabled, bool):
        raise _cannot(enabled, "bool")
    devices, filters = _devices(raw["devices"]), _filters(raw.get("device-filter"))
    counts = raw.get("mig-devices")
    if enabled and counts is None:
        raise MigConfigError("missing required field 'mig-devices' when 'mig-enabled' is true")
    counts = _counts(counts or {})
    if not enabled and counts:
        raise MigConfigError("MIG devices included when 'mig-enabled' is false")
    return MigSpec(devices, filters, enabled is True, counts)


def _devices(given: Any) -> tuple[int, ...] | None:
    if given is None or isinstance(given, str):
        if given != "all":
            raise MigConfigError(f"invalid string input for 'devices': {given or ''}")
        return None
    wrong = next((g for g in given if type(g) is not int), None) if isinstance(given, list) else given
    if wrong is not None:
        into = "int" if isinstance(given, list) else "[]int"
        raise MigConfigError(f"({_cannot(given, 'string')}, {_cannot(wrong, into)})")
    return tuple(given)


def _filters(given: Any) -> tuple[str, ...]:
    if given is None or isinstance(given, str):
        return (given,) if given else ()
    wrong = next((g for g in given if not isinstance(g, str)), None) if isinstance(given, list) else given
    if wrong is not None:
        into = "string" if isinstance(given, list) else "[]string"
        raise MigConfigError(f"({_cannot(given, 'string')}, {_cannot(wrong, into)})")
    return tuple(given)


def _counts(raw: Any) -> dict[str, int]:
    if not isinstance(raw, dict):
        raise _cannot(raw, "types.MigConfig")
    for count in raw.values():
        if type(count) is not int and count is not None:
            raise _cannot(count, "int")
    counts = {str(name): count or 0 for name, count in raw.items()}
    problem = "error validating values in 'mig-devices' field: "
    for name, count in counts.items():
        wrong = next(_wrong_with(name), "")
        if wrong:
            raise MigConfigError(f"{problem}invalid format for '{name}': {wrong}")
        if count < 0:
            # Upstream prints the count where it says the profile, and the error that it has not.
            raise MigConfigError(f"{problem}invalid count for '{count}': <nil>")
    if counts and not any(counts.values()):
        raise MigConfigError(f"{problem}all counts for all MigProfiles are 0")
    return counts


def _wrong_with(profile: str) -> Iterator[str]:
    """What go-nvlib says of a profile's form; nothing of one that it can read, whether or not a card has it."""
    if not profile:
        yield "profile is the empty string"
    if "+" in profile and "-" in profile:
        yield f"profile '{profile}' contains both '+/-' attributes"
    fields, sign, attributes = profile.partition("+" if "+" in profile else "-")
    for wrong in _wrong_fields(fields.split(".", 2)):
        yield f"cannot parse fields of '{profile}': {wrong}"
    for wrong in _wrong_attributes(attributes.split(",")) if sign else ():
        yield f"cannot parse attributes of '{profile}': {wrong}"


def _wrong_fields(fields: list[str]) -> Iterator[str]:
    if len(fields) < 2:
        yield "parsed wrong number of fields, expected 2 or 3"
        return
    for text, unit in zip(fields, ("c", "g", "gb")[-len(fields) :], strict=True):
        if text.strip() != text:
            yield f"leading or trailing spaces on '%d{unit}'"
        if not text.endswith(unit):
            yield f"missing '{unit}' from '%d{unit}'"
        if not _NUMBER.fullmatch(text.removesuffix(unit)):
            yield f"malformed number in '%d{unit}'"


def _wrong_attributes(attributes: list[str]) -> Iterator[str]:
    for i, one in enumerate(attributes):
        if one in attributes[:i]:
            yield "non unique attribute in list"
        if not one:
            yield "empty attribute in list"
        if one.strip() != one:
            yield "leading or trailing spaces in attribute"
        if one[:1].isdecimal():
            yield "attribute begins with a number"
        if one.startswith(".") or one.endswith("."):
            yield "attribute begins/ends with a dot"
        if not _ATTRIBUTE.fullmatch(one):
            yield "non alpha-numeric character or digit in attribute"


def generated_configs(model: GpuModel) -> MigConfigs:
    """What MIG Manager writes for a node with cards of this model."""
    configs: MigConfigs = {"all-disabled": (MigSpec(None, (), False, {}),)}
    if not model.mig:
        return configs
    configs["all-enabled"] = (MigSpec(None, (), True, {}),)
    formula = _BALANCED.get(model.compute_slices)
    if formula is not None:
        plain = [p for p in model.mig if not p.has_media]
        most = {
            g: max((p for p in plain if p.compute_slices == g), key=lambda p: p.instances_most)
            for g in formula
        }
        configs["all-balanced"] = (MigSpec(None, (), True, {most[g].name: n for g, n in formula.items()}),)
    for p in model.mig:
        configs[f"all-{p.name.replace('+', '.')}"] = (MigSpec(None, (), True, {p.name: p.instances_most}),)
    return configs


def selected(configs: MigConfigs, name: str) -> tuple[MigSpec, ...]:
    """Raises: MigConfigError."""
    found = configs.get(name)
    if found is None:
        raise MigConfigError(f"error selecting MIG config: selected mig-config not present: {name}")
    return found
