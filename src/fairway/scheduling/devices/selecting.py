"""Do the selectors of a class or a request hold for a device?

What an expression says of a device does not change while the device stays the same, and is the same of devices that
differ in their names alone: it is asked once. A fleet of a thousand equal nodes evaluates a selector once.
"""

from __future__ import annotations

from typing import Final

from fairway.scheduling.devices.facts import Device

_VERDICTS_KEPT: Final = 65536
_verdicts: dict[tuple[str, str], bool] = {}
"""By expression and a device's content."""


class AllocationError(Exception):
    """Nothing can be allocated before somebody changes an object: the whole attempt ends. The text is upstream's."""


def holds(expressions: tuple[str, ...], device: Device, kind: str, name: str) -> bool:
    """Whether all of them hold. `kind`, `name`: whose they are, for the words of a failure.

    Raises: AllocationError, for an expression that fails on this device.
    """
    for index, expression in enumerate(expressions):
        known = device.matches.get(expression)
        if known is None:
            known = device.matches[expression] = _verdict(expression, device, kind, name, index)
        if not known:
            return False
    return True


def _verdict(expression: str, device: Device, kind: str, name: str, index: int) -> bool:
    """Raises: AllocationError; a failure is not remembered: its words name who asked."""
    key = (expression, device.content)
    known = _verdicts.get(key)
    if known is None:
        if len(_verdicts) >= _VERDICTS_KEPT:
            _verdicts.clear()
        known = _verdicts[key] = _asked(expression, device, f"{kind} {name}: selector #{index}")
    return known


def _asked(expression: str, device: Device, subject: str) -> bool:
    # CEL comes with the first selector: most clusters have no device claims.
    from fairway.kube.cel.devices import is_match, selector
    from fairway.kube.cel.operators import CelError

    program = selector(expression)
    if program.error:
        raise AllocationError(f"{subject}: CEL compile error: {program.error}")
    try:
        return is_match(program, device.id.driver, device.obj)
    except CelError as failed:
        raise AllocationError(f"{subject}: CEL runtime error: {failed}") from failed
