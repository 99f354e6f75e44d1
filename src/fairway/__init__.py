"""Fairway: a GPU platform for AI workloads on Kubernetes. Start with ARCHITECTURE.md."""

__version__ = "0.1.0.dev0"
