"""What distinguishes one version of a model server from another: `slowdown=1.5,errors=2%,accuracy=0.91`."""

from __future__ import annotations

import math
from typing import NamedTuple


class Nature(NamedTuple):
    """`accuracy` is what an evaluation beside the service would say, NaN where nobody does."""

    slow_permille: int = 1000
    fails_permille: int = 0
    accuracy: float = math.nan


PLAIN = Nature()


def parse_nature(text: str) -> Nature:
    """Raises: ValueError, with what was expected."""
    found = PLAIN
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        try:
            number = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            number = math.nan
        if name == "slowdown" and 0.01 <= number <= 1000:
            found = found._replace(slow_permille=round(1000 * number))
        elif name == "errors" and 0 <= number <= 1:
            found = found._replace(fails_permille=round(1000 * number))
        elif name == "accuracy" and 0 <= number <= 1:
            found = found._replace(accuracy=number)
        else:
            raise ValueError("expected slowdown=1.5, errors=2% or accuracy=0.91, with commas between")
    return found
