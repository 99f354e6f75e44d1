"""Fairway: a GPU platform for AI workloads on Kubernetes. Start with ARCHITECTURE.md."""

from fairway.compiled.loading import activate as _activate

__version__ = "0.1.0"

# Before anything else of the package is imported: from here on its hot modules may come as compiled code.
_activate()
