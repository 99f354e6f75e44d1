"""Makes `recorded`, which several rooms' tests share, importable."""

import sys
from pathlib import Path

_TESTS = next(p for p in Path(__file__).parents if p.name == "tests")
sys.path.insert(0, str(_TESTS))
