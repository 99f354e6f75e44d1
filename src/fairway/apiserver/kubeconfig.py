"""The file kubectl finds a cluster by."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from fairway.apiserver.auth.certificates import Pki
from fairway.kube.manifestwriting import write_yaml


def write(path: Path, pki: Pki, server: str, name: str = "fairway") -> None:
    """Certificates are embedded, so that the file can be moved; it is readable by its owner alone."""
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": server, "certificate-authority-data": _encoded(pki.ca)}}
        ],
        "users": [
            {
                "name": f"{name}-admin",
                "user": {
                    "client-certificate-data": _encoded(pki.admin),
                    "client-key-data": _encoded(pki.admin_key),
                },
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": f"{name}-admin"}}],
        "current-context": name,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(write_yaml([data]))
    fresh.replace(path)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
