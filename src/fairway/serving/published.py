"""How far are the model's times from those that others measured of real servers?

Each published row is played: the same model, cards, lengths and load. Clients in a closed loop need no loop here: with
as many sequence slots as clients, a request is taken up when its client would have sent it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import yaml

from fairway.catalog.catalog import Catalog
from fairway.errors import UserError
from fairway.serving import batching as b
from fairway.serving.fleet import Fleet, Gateway
from fairway.serving.models import model_named
from fairway.serving.steptimes import Deployed
from fairway.serving.traffic import Requests, Tokens

MEASURES = ("ttft", "tpot", "rate", "whole")


@dataclass(frozen=True, slots=True)
class Row:
    """`said` and `ours` by measure: ms, and output tokens a second."""

    source: str
    url: str
    engine: str
    given: dict[str, Any]
    said: dict[str, float]
    ours: dict[str, float]

    def error(self, measure: str) -> float:
        """A share of what was measured; positive: ours is more."""
        return self.ours[measure] / self.said[measure] - 1


def played(catalog: Catalog) -> Iterator[Row]:
    """Raises: UserError: a model or card is unknown."""
    for one in _sets():
        for row in one["rows"]:
            given = {**one.get("defaults", {}), **row}
            said = {name: float(given[name]) for name in MEASURES if name in given}
            yield Row(
                one["name"], one["url"], one["engine"], given, said, _ours(given, one["engine"], catalog)
            )


def _ours(given: dict[str, Any], engine: str, catalog: Catalog) -> dict[str, float]:
    gpu = catalog.gpu(given["gpu"])
    if gpu is None:
        raise UserError(f"{given['gpu']}: no such GPU in the catalog")
    clients = given.get("clients") or given.get("batch") or 0
    requests = given.get("requests") or given.get("batch") or 10 * clients
    seqs = given.get("seqs", 256)
    deployed = Deployed(
        model=model_named(given["model"]),
        gpu=gpu,
        tensor_parallel=given["parallel"],
        quantization=given.get("quantization", "auto"),
        kv_bytes=given.get("kv", 2),
        memory_share=given.get("memory", 0.90),
        seqs_most=min(seqs, clients) if clients else seqs,
        tokens_most=given.get("tokens", 8192),
    )
    fleet = Fleet(deployed, _requests(given, requests), Gateway())
    fleet.add()
    fleet.drain()
    when = fleet.when
    done = np.sort(when[:, b.DONE])
    sent = when[:, b.ARRIVED].copy()
    if clients:
        sent[clients:] = done[: max(len(sent) - clients, 0)]
    outputs = fleet.what[:, b.OUTPUT]
    if "requests" not in given and "batch" not in given:
        # genai-perf measures when it is steady: without the first wave, which comes all at once.
        when, outputs, sent = when[clients:], outputs[clients:], sent[clients:]
        done = done - done[clients - 1]
    return {
        "ttft": 1000 * float((when[:, b.FIRST] - sent).mean()),
        "tpot": 1000 * float(((when[:, b.DONE] - when[:, b.FIRST]) / np.maximum(outputs - 1, 1)).mean()),
        "rate": float(outputs.sum() / done[-1]),
        "whole": 1000 * float(done[-1]),
    }


def _requests(given: dict[str, Any], n: int) -> Requests:
    spread = 1.0 if given.get("sharegpt") else 0.0
    chance = np.random.Generator(np.random.PCG64(1))
    lengths = [
        Tokens(given[name] / np.exp(spread * spread / 2), spread, 100_000).drawn(n, chance)
        for name in ("prompt", "output")
    ]
    return Requests(np.zeros(n), lengths[0], lengths[1], np.arange(n))


@cache
def _sets() -> list[dict[str, Any]]:
    text = (files(__package__) / "data" / "published.yaml").read_text(encoding="utf-8")
    found: list[dict[str, Any]] = yaml.safe_load(text)["sets"]
    return found


def table(rows: Iterable[Row]) -> list[str]:
    """Markdown: median and worst error of every set and measure."""
    found: dict[str, dict[str, list[float]]] = {}
    urls: dict[str, str] = {}
    for row in rows:
        urls[row.source] = row.url
        for measure in row.said:
            found.setdefault(row.source, {}).setdefault(measure, []).append(row.error(measure))
    lines = ["| measured by | rows | ttft | tpot | tokens/s | whole |", "|---|---|---|---|---|---|"]
    for source, errors in found.items():
        cells = [_cell(errors.get(measure, [])) for measure in MEASURES]
        count = max(len(values) for values in errors.values())
        lines.append(f"| [{source}]({urls[source]}) | {count} | {' | '.join(cells)} |")
    every = [[e for errors in found.values() for e in errors.get(measure, [])] for measure in MEASURES]
    return [*lines, f"| all | {sum(map(len, every))} figures | {' | '.join(map(_cell, every))} |"]


def _cell(errors: list[float]) -> str:
    if not errors:
        return "-"
    sizes = np.abs(errors)
    return f"{100 * np.median(sizes):.0f} %, worst {100 * sizes.max():.0f} %"
