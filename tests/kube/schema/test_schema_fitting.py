"""The quick answer is the answer of the words: an object fits where nothing is found wrong with it."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.kube.schema import values
from fairway.kube.schema.fitting import fits

NAMES = st.sampled_from(["a", "b", "name", "containers"])
LEAVES = st.one_of(
    st.builds(
        dict,
        type=st.just("string"),
        minLength=st.integers(0, 2),
        maxLength=st.integers(1, 4),
    ),
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "string", "enum": ["x", "y"]},
            {"type": "string", "pattern": "^x+$"},
            {"type": "string", "format": "date-time"},
            {"type": "integer", "format": "int32"},
            {"type": "integer", "minimum": 1},
            {"type": "boolean"},
            {"type": "number"},
            {"type": "string", "nullable": True},
            {"x-kubernetes-int-or-string": True},
            {"x-kubernetes-int-or-string": True, "pattern": "^x"},
            {"x-kubernetes-preserve-unknown-fields": True},
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        ]
    ),
)


def _wider(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    objects = st.builds(
        lambda fields, required, extra: {
            "type": "object",
            "properties": fields,
            "required": required,
            **({"additionalProperties": extra} if extra is not None and not fields else {}),
        },
        st.dictionaries(NAMES, inner, max_size=3),
        st.lists(NAMES, max_size=2, unique=True),
        st.none() | inner,
    )
    lists = st.builds(
        lambda items, most, kind: {
            "type": "array",
            "items": items,
            "maxItems": most,
            "x-kubernetes-list-type": kind,
            "x-kubernetes-list-map-keys": ["name"],
        },
        inner,
        st.integers(0, 3),
        st.sampled_from(["atomic", "set", "map"]),
    )
    return objects | lists


SCHEMAS = st.recursive(LEAVES, _wider, max_leaves=8)
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1, 2.0, 1.5, "", "x", "xx", "y", "xxxxx", "2026-01-01T00:00:00Z"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(SCHEMAS, VALUES)
@settings(max_examples=600, deadline=None)
def test_both_agree(schema: dict[str, Any], value: Any) -> None:
    wrong = [*values._check(value, schema, ()), *values._check_lists(value, schema, ())]
    assert fits(value, schema, values._is_right) == (not wrong)
    # What is remembered of a value that fitted is not said of another one.
    assert fits(value, schema, values._is_right) == (not wrong)
