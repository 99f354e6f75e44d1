"""`python -m fairway.apiserver SETTINGS`: one server process, as `fairway up --detach` starts it."""

from __future__ import annotations

import sys

import msgspec

from fairway.apiserver.process import serve
from fairway.apiserver.serving import settings_of
from fairway.errors import FairwayError


def main() -> int:
    try:
        return serve(settings_of(msgspec.json.decode(sys.argv[1])))
    except FairwayError as failed:
        sys.stderr.write(f"fairway: {failed}\n")
        return failed.exit_code


if __name__ == "__main__":
    sys.exit(main())
