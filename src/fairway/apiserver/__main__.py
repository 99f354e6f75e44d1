"""`python -m fairway.apiserver SETTINGS`: one server process, as `fairway up --detach` starts it."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from fairway.apiserver.process import serve
from fairway.apiserver.serving import Settings
from fairway.errors import FairwayError


def main() -> int:
    said = msgspec.json.decode(sys.argv[1])
    for name in ("data", "kubeconfig", "cloud", "scheduler"):
        said[name] = Path(said[name]) if said.get(name) else None
    said["fleet"] = tuple(said["fleet"])
    said["without"] = None if said.get("without") is None else tuple(said["without"])
    try:
        return serve(Settings(**said))
    except FairwayError as failed:
        sys.stderr.write(f"fairway: {failed}\n")
        return failed.exit_code


if __name__ == "__main__":
    sys.exit(main())
