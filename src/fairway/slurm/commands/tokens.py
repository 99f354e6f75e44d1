"""The tokens of slurmrestd: who it is that asks, signed with the cluster's key (auth/jwt, HS256).

Times are the cluster's. Source: src/plugins/auth/jwt, 22.05.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
from hashlib import sha256
from pathlib import Path

KEY_BYTES = 32
LIFESPAN_S = 1800
"""Of a token whose lifespan is not said: DEFAULT_AUTH_TOKEN_LIFESPAN."""
TOKEN_MOST = 4096
_HEAD = {"alg": "HS256", "typ": "JWT"}


def key_of(folder: Path) -> bytes:
    """The cluster's key, made where there is none; its owner's alone. Raises: OSError."""
    path = folder / "jwt_hs256.key"
    if not path.exists() or path.stat().st_size != KEY_BYTES:
        fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fresh, os.urandom(KEY_BYTES))
        os.close(fresh)
    return path.read_bytes()


def make(key: bytes, user: str, now: int, lifespan_s: int) -> str:
    claims = {"exp": now + lifespan_s, "iat": now, "sun": user}
    body = f"{_packed(json.dumps(_HEAD).encode())}.{_packed(json.dumps(claims).encode())}"
    return f"{body}.{_packed(hmac.digest(key, body.encode(), sha256))}"


def user_of(key: bytes, token: str, now: int) -> str | None:
    """Whom a token names; None for one that is not ours, or is over."""
    body, _, signature = token.rpartition(".")
    if (
        len(token) > TOKEN_MOST
        or not token.isascii()
        or not hmac.compare_digest(_packed(hmac.digest(key, body.encode(), sha256)), signature)
    ):
        return None
    try:
        text = body.partition(".")[2]
        claims = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        return str(claims["sun"]) if int(claims["exp"]) > now else None
    except (ValueError, KeyError, TypeError):
        return None


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
