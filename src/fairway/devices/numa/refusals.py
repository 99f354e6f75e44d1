"""Why does the kubelet not let a pod in? Source: pkg/kubelet/cm/admission/errors.go (v1.36)."""

from __future__ import annotations


class Refused(Exception):
    """`reason` and `message` of the pod's status."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason, self.message = reason, message


def unexpected(why: str) -> Refused:
    return Refused("UnexpectedAdmissionError", f"Allocate failed due to {why}, which is unexpected")


def no_locality() -> Refused:
    """No NUMA nodes on which all of it can be."""
    return Refused("TopologyAffinityError", "Resources cannot be allocated with Topology locality")
