"""What is in every answer: JSON schemas (2020-12), by the name of the command.

Those of answers that are written as they are come from their types; explain and check write their own.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fairway.answers.forecasting.backtest import Backtest
from fairway.answers.forecasting.forecast import Forecast
from fairway.answers.whatif.comparing import WhatIf
from fairway.answers.whatif.placements import Placements
from fairway.answers.whatif.searching import Searched

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, dict[str, Any]]:
    """By command."""
    from_types = {
        "forecast": Forecast,
        "backtest": Backtest,
        "what-if": WhatIf,
        "search": Searched,
        "placements": Placements,
    }
    # Written and read back: what is a tuple here is a list there.
    found = {
        n: _closed(msgspec.json.decode(msgspec.json.encode(msgspec.json.schema(t))))
        for n, t in from_types.items()
    }
    for answer in ("forecast", "backtest"):
        _calibrated(found[answer])
    found |= {"explain": _EXPLAIN, "check": _CHECK}
    return {name: {"$schema": DIALECT, "title": name, **found[name]} for name in sorted(found)}


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """Nothing but what is named, and all of it."""
    for part in schema.get("$defs", {}).values():
        if part.get("type") == "object" and "properties" in part:
            part["required"] = list(part["properties"])
            part["additionalProperties"] = False
    return schema


def _calibrated(schema: dict[str, Any]) -> None:
    for part in schema["$defs"].values():
        if "calibration" in part.get("properties", {}) and "object" not in part["properties"]:
            part["properties"]["calibration"] = _object(
                cases=_INTEGER,
                shift=_NUMBER,
                below=_NUMBER,
                above=_NUMBER,
                until=_TEXT,
                coverage=_or_null(_NUMBER),
            )


def _object(optional: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_TEXT: Final = {"type": "string"}
_NUMBER: Final = {"type": "number"}
_INTEGER: Final = {"type": "integer"}
_ANYTHING: Final = {"type": "object"}
# As `explanation` has them, in the order of the chain.
_LAYER_NAMES: Final = (
    "admission queue quota preemption gang scheduler volumes provisioning kubelet scaling none"
)
_LAYERS: Final = {"enum": _LAYER_NAMES.split()}
_BLOCKER: Final = _object(layer=_LAYERS, reason=_TEXT, message=_TEXT, numbers=_ANYTHING)
_STATES: Final = {"enum": ["passed", "blocked", "waits", "unknown", "noted"]}
_EXPLAIN: Final = _object(
    object=_TEXT,
    state=_TEXT,
    since=_TEXT,
    sentence=_TEXT,
    blocker=_BLOCKER,
    chain=_list(
        _object(
            layer=_LAYERS, state=_STATES, reason=_TEXT, message=_TEXT, numbers=_ANYTHING, details=_list(_TEXT)
        )
    ),
    changes=_or_null(
        _list(
            _object(
                what=_TEXT,
                commands=_list(_TEXT),
                starts=_NUMBER,
                cost_usd=_or_null(_NUMBER),
                evicts=_list(_TEXT),
            )
        )
    ),
    unknown=_list(_TEXT),
)
_CHECK: Final = _object(
    documents=_list(
        _object(
            where=_TEXT,
            object=_TEXT,
            verdict=_TEXT,
            message=_TEXT,
            policy=_TEXT,
            warnings=_list(_TEXT),
            cluster_queue=_TEXT,
            flavors=_list(_TEXT),
            nodes=_list(_TEXT),
            starts=_or_null(_NUMBER),
            usd_per_hour=_or_null(_NUMBER),
            blocker=_or_null(_BLOCKER),
        )
    ),
    preempts=_list(_TEXT),
    horizon=_NUMBER,
    unknown=_list(_TEXT),
)
