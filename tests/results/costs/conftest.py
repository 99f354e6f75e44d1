"""Makes `recorded` and `costworld` importable."""

import sys
from pathlib import Path

_TESTS = next(p for p in Path(__file__).parents if p.name == "tests")
sys.path[:0] = [str(_TESTS), str(Path(__file__).parent)]
