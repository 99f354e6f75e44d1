"""Which modules come as compiled code, and is that code the sources' own?

A build is a directory with extension modules and `build.json`, which says what every source file of the package
was when they were made: size, time and SHA-256. A file whose size and time are still those is the same; any
other is read and compared. One that differs, or is gone, and nothing of the build is used: calls between
compiled modules are bound when they are made, so half a build would mix two versions.

This runs whenever `fairway` is imported, so it costs one `stat` a source file (a millisecond in all).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

SWITCH = "FAIRWAY_COMPILED"
MANIFEST = "build.json"
PACKAGE = Path(__file__).parent.parent


def build_directory() -> Path:
    """Where this environment keeps its build. Each has its own: extension modules are for one Python."""
    return Path(sys.prefix) / "share" / "fairway" / f"compiled-{sys.implementation.cache_tag}"


class Compiled:
    """Finds modules in a build; `files` are their extension modules by name. A meta path finder without its abstract
    base: `importlib.abc` loads half of `importlib.resources`, ten milliseconds of every start."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self.files.get(fullname)
        if file is None:
            return None
        return spec_from_file_location(fullname, file, loader=ExtensionFileLoader(fullname, file))


def activate() -> None:
    """Let Python find the build's modules before the sources, if there is a build and it is fresh."""
    if os.environ.get(SWITCH) == "0" or is_active():
        return
    build = build_directory()
    manifest = read_manifest(build)
    if manifest is not None and first_difference(PACKAGE, manifest["sources"]) is None:
        sys.meta_path.insert(0, Compiled({n: str(build / f) for n, f in manifest["modules"].items()}))


def is_active() -> bool:
    return any(isinstance(finder, Compiled) for finder in sys.meta_path)


def state() -> str:
    """One line: whether compiled code runs, and if not, why."""
    if is_active():
        return f"compiled modules from {build_directory()}"
    if os.environ.get(SWITCH) == "0":
        return f"pure Python: {SWITCH}=0"
    manifest = read_manifest(build_directory())
    if manifest is None:
        return "pure Python: nothing is compiled; `make compiled` does it"
    changed = first_difference(PACKAGE, manifest["sources"])
    return f"pure Python: {changed} changed since it was compiled; `make compiled` does it again"


def read_manifest(build: Path) -> dict[str, Any] | None:
    """What a build is of and where its modules lie; None where there is no readable one."""
    try:
        manifest = json.loads((build / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    known = {"directory", "modules", "sources"}
    return manifest if isinstance(manifest, dict) and known <= manifest.keys() else None


def sources_of(package: Path) -> dict[str, list[Any]]:
    """Every source file of a package: `[size, mtime ns, SHA-256]` by its path below the package."""
    found = {}
    for file in sorted((*package.rglob("*.py"), *package.rglob("*.c"))):
        stat = file.stat()
        found[file.relative_to(package).as_posix()] = [stat.st_size, stat.st_mtime_ns, _digest(file)]
    return found


def first_difference(package: Path, sources: Mapping[str, Sequence[Any]]) -> str | None:
    """The first of these files that is not what it was, or None. O(files): a stat each."""
    for name, (size, mtime_ns, digest) in sources.items():
        file = os.path.join(package, name)
        try:
            stat = os.stat(file)
            if stat.st_size != size or (stat.st_mtime_ns != mtime_ns and _digest(Path(file)) != digest):
                return name
        except OSError:
            return name
    return None


def _digest(file: Path) -> str:
    from hashlib import sha256

    return sha256(file.read_bytes()).hexdigest()
