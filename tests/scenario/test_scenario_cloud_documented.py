"""Every field of the `cloud:` section is in its document."""

from __future__ import annotations

import re
from pathlib import Path

from fairway.scenario.cloudreading import CLOUD, INTERRUPTION, STOCK
from fairway.scenario.groupreading import FLAGS, GROUP

DOCUMENT = Path(__file__).parents[2] / "docs" / "provisioning.md"


def test_every_field_is_documented() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    for name in (*CLOUD, *STOCK, *INTERRUPTION, *GROUP, *FLAGS):
        assert re.search(rf"\b{name}\b", document), name
