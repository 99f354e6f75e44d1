"""What is the Workload of a job called?

Source: pkg/controller/jobframework/workload_names.go.
"""

from __future__ import annotations

from hashlib import sha1

_HASH_LENGTH = 5
_MAX_LENGTH = 253
_MAX_PREFIX_LENGTH = _MAX_LENGTH - 1 - _HASH_LENGTH


def workload_name(name: str, uid: str, gk: str, *, extra: str = "") -> str:
    """`job-<name>-<hash5>`. `gk`: the owner's group kind; `extra`: the generation, for slices of elastic jobs."""
    kind, _, group = gk.partition(".")
    prefix = f"{kind.lower()}-{name}"[:_MAX_PREFIX_LENGTH]
    hashed = "\n".join((kind, group, name, uid, *([extra] if extra else ())))
    # Not for security: the names have to be Kueue's.
    digest = sha1(hashed.encode(), usedforsecurity=False).hexdigest()
    return f"{prefix}-{digest[:_HASH_LENGTH]}"
