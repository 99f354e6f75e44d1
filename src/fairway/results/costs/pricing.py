"""By which price books is a run billed? Those its scenario names, then those that are given: what comes later wins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fairway.catalog.catalog import Catalog, load_catalog
from fairway.errors import UserError
from fairway.results.run import RunInfo
from fairway.scenario.model import Scenario


def books_of(scenario: Scenario) -> tuple[str, ...]:
    """The files under the scenario's `cloud.prices`."""
    return () if scenario.cloud is None else tuple(str(book) for book in scenario.cloud.books)


def catalog_of_run(info: RunInfo, given: Sequence[Path] = ()) -> Catalog:
    """The prices a run is billed by; of the scenario's books those that are gone are left out where others are given.

    Raises: InvalidInput for what a book says wrong; UserError where a book is gone and none is given.
    """
    own = [Path(book) for book in info.books]
    gone = [book for book in own if not book.exists()]
    if gone and not given:
        raise UserError(
            f"{info.name}: its scenario takes prices from {gone[0]}, which is not there (any more): "
            "say which books to bill it by with --book FILE"
        )
    return load_catalog([*(book for book in own if book not in gone), *given])
