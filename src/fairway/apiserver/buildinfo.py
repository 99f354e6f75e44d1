"""Which Kubernetes does this server say it is, and of which build?"""

from __future__ import annotations

import platform

from fairway import __version__

# The Kubernetes whose API is spoken; the build says that it is ours.
MAJOR, MINOR, PATCH = 1, 36, 3


def version() -> dict[str, str]:
    return {
        "major": str(MAJOR),
        "minor": str(MINOR),
        "emulationMajor": str(MAJOR),
        "emulationMinor": str(MINOR),
        "minCompatibilityMajor": str(MAJOR),
        "minCompatibilityMinor": str(MINOR - 1),
        "gitVersion": f"v{MAJOR}.{MINOR}.{PATCH}+fairway.{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": f"python{platform.python_version()}",
        "compiler": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
