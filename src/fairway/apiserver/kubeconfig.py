"""The file kubectl finds a cluster by."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from fairway.apiserver.auth.certificates import Pki

# As text: a YAML library is a twentieth of a server's start, and nothing here needs quotes.
_FILE = """\
apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {name}-admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}-admin
current-context: {name}
"""


def write(path: Path, pki: Pki, server: str, name: str = "fairway") -> None:
    """Certificates are embedded, so that the file can be moved; it is readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(
            _FILE.format(
                name=name,
                server=server,
                ca=_encoded(pki.ca),
                certificate=_encoded(pki.admin),
                key=_encoded(pki.admin_key),
            )
        )
    fresh.replace(path)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
