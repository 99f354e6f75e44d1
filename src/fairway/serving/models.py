"""How large is a language model: its weights, what a token costs to compute, what it leaves in the cache?

Source: the models' own config.json; the arithmetic is that of a decoder of transformer blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from fairway.errors import UserError

_BYTES_OF = {
    "float16": 2,
    "bfloat16": 2,
    "auto": 2,
    "fp8": 1,
    "int8": 1,
    "int4": 0.5,
    "awq": 0.5,
    "gptq": 0.5,
}


@dataclass(frozen=True, slots=True)
class Model:
    """A decoder. `experts` are how many and how many of them a token uses; `inner` is one expert's."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    inner: int
    vocabulary: int
    context: int
    is_gated: bool
    experts: tuple[int, int]

    @property
    def attention_weights(self) -> int:
        """Of one layer."""
        return self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)

    @property
    def expert_weights(self) -> int:
        """Of one expert of one layer."""
        return self.hidden * self.inner * (3 if self.is_gated else 2)

    @property
    def weights(self) -> int:
        """All of them: layers, embedding and head."""
        layer = self.attention_weights + self.experts[0] * self.expert_weights
        return self.layers * layer + 2 * self.vocabulary * self.hidden

    @property
    def cache_values(self) -> int:
        """Keys and values that one token leaves in the cache."""
        return 2 * self.layers * self.kv_heads * self.head_size


def bytes_per_weight(quantization: str) -> float:
    """Raises: UserError."""
    try:
        return _BYTES_OF[quantization]
    except KeyError:
        raise UserError(
            f"{quantization!r}: unknown precision; expected one of {', '.join(_BYTES_OF)}"
        ) from None


def model_named(name: str) -> Model:
    """By its short name, or by the last part of a Hugging Face path. Raises: UserError."""
    known = _models()
    short = (
        name.rsplit("/", 1)[-1].lower().removeprefix("meta-").removesuffix("-hf").removesuffix("-instruct")
    )
    found = known.get(short)
    if found is None:
        raise UserError(f"{name!r}: no such model; expected one of {', '.join(known)}")
    return found


@cache
def _models() -> dict[str, Model]:
    text = (files(__package__) / "data" / "models.yaml").read_text(encoding="utf-8")
    return {name: _model(name, row) for name, row in yaml.safe_load(text)["models"].items()}


def _model(name: str, row: dict[str, Any]) -> Model:
    total, used = row.get("experts", (1, 1))
    return Model(
        name=name,
        layers=row["layers"],
        hidden=row["hidden"],
        heads=row["heads"],
        kv_heads=row["kvHeads"],
        head_size=row.get("headSize", row["hidden"] // row["heads"]),
        inner=row["inner"],
        vocabulary=row["vocabulary"],
        context=row["context"],
        is_gated=row.get("gated", True),
        experts=(total, used),
    )
