"""Builds the platform wheel: the package with its hot modules compiled.

Without `FAIRWAY_WHEEL=compiled` in the environment wheels are pure Python. The compiled modules go where
`fairway.compiled.loading` looks for them, below `share/` of the environment that the wheel is installed into.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SWITCH = "FAIRWAY_WHEEL"


class CompiledModules(BuildHookInterface):
    """Compiles for the Python that runs the build, and tags the wheel for it."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable" or os.environ.get(SWITCH) != "compiled":
            return
        source = Path(self.root) / "src"
        sys.path.insert(0, str(source))
        from fairway.compiled import building, loading

        made = Path(self.root) / "build" / loading.build_directory().name
        shutil.rmtree(made, ignore_errors=True)
        kept = loading.read_manifest(loading.build_directory())
        if kept is not None and loading.first_difference(source / "fairway", kept["sources"]) is None:
            # `make compiled` has made them already, of these very sources.
            shutil.copytree(loading.build_directory() / kept["directory"], made / kept["directory"])
            shutil.copy(loading.build_directory() / loading.MANIFEST, made)
        else:
            building.build(source / "fairway", building.MODULES, made)
            (made / "lock").unlink()
        build_data["shared_data"][str(made)] = f"share/fairway/{made.name}"
        build_data["pure_python"] = False
        python = f"cp{sys.version_info.major}{sys.version_info.minor}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"{python}-{python}-{platform}"
