from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver_serving import Served, served


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One server for the tests of a module."""
    data: Path = tmp_path_factory.mktemp("cluster")
    with served(data) as found:
        yield found
