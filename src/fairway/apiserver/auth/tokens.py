"""Bearer tokens: the administrator's static one, and service accounts' signed ones.

A service account's token is a JWT bound to the account's UID (and a pod's, where asked): it stops working when
that is deleted. Its life is counted in wall time, as its holder counts it, whatever time it is in the cluster.

Source: apiserver pkg/authentication, pkg/serviceaccount/claims.go (v1.36).
"""

from __future__ import annotations

import hmac
import secrets
import time
from pathlib import Path
from typing import Any

from fairway.admission.rbac.impersonation import service_account_groups
from fairway.admission.request import ALL_AUTHENTICATED, SYSTEM_MASTERS, User
from fairway.cluster.actions import View
from fairway.kube.objects import Key, Obj

ISSUER = "https://kubernetes.default.svc.cluster.local"
_ALGORITHM = "ES256"
DEFAULT_SECONDS = 3600
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32
_ADMIN = User("kubernetes-admin", (SYSTEM_MASTERS, ALL_AUTHENTICATED))
_KEPT = 1024


class Tokens:
    """Makes and checks tokens."""

    def __init__(self, folder: Path, view: View) -> None:
        self._view = view
        self._key_file = folder / "sa.key"
        self._admin = admin_token(folder)
        self._key: Any = None
        self._known: dict[str, dict[str, Any]] = {}

    def user(self, token: str) -> User | None:
        """Whose token this is; None for nobody's, and for one that has expired or lost its object."""
        if hmac.compare_digest(token.encode(), self._admin.encode()):
            return _ADMIN
        claims = self._claims(token)
        return None if claims is None else self._account_user(claims)

    def audiences(self, token: str) -> list[str]:
        claims = self._claims(token)
        return [ISSUER] if claims is None else list(claims.get("aud") or [])

    def _claims(self, token: str) -> dict[str, Any] | None:
        if token.count(".") != 2:
            return None
        known = self._known.get(token)
        if known is None:
            import jwt

            try:
                known = jwt.decode(
                    token,
                    self._signing_key().public_key(),
                    algorithms=[_ALGORITHM],
                    issuer=ISSUER,
                    options={"verify_aud": False, "require": ["exp", "iat", "iss", "sub"]},
                )
            except jwt.InvalidTokenError:
                return None
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[token] = known
        return known if known["exp"] > time.time() else None

    def _account_user(self, claims: dict[str, Any]) -> User | None:
        said = claims.get("kubernetes.io") or {}
        namespace = said.get("namespace", "")
        account = said.get("serviceaccount") or {}
        if not self._is_there("ServiceAccount", namespace, account):
            return None
        extra = [("authentication.kubernetes.io/credential-id", (f"JTI={claims.get('jti', '')}",))]
        pod = said.get("pod")
        if pod is not None:
            if not self._is_there("Pod", namespace, pod):
                return None
            extra.append(("authentication.kubernetes.io/pod-name", (pod["name"],)))
            extra.append(("authentication.kubernetes.io/pod-uid", (pod["uid"],)))
        name = f"system:serviceaccount:{namespace}:{account['name']}"
        groups = (*service_account_groups(namespace), ALL_AUTHENTICATED)
        return User(name, groups, account["uid"], tuple(sorted(extra)))

    def _is_there(self, gk: str, namespace: str, reference: dict[str, Any]) -> bool:
        obj = self._view.get(Key(gk, namespace, reference.get("name", "")))
        return obj is not None and obj["metadata"]["uid"] == reference.get("uid")

    def issue(self, account: Obj, seconds: int, audiences: list[str], bound: Obj | None) -> tuple[str, int]:
        """A token for a service account, and when it expires (seconds since 1970)."""
        import jwt

        now = int(time.time())
        meta = account["metadata"]
        said: dict[str, Any] = {
            "namespace": meta["namespace"],
            "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
        }
        if bound is not None:
            said[bound["kind"].lower()] = {"name": bound["metadata"]["name"], "uid": bound["metadata"]["uid"]}
        claims = {
            "aud": audiences or [ISSUER],
            "exp": now + seconds,
            "iat": now,
            "nbf": now,
            "iss": ISSUER,
            "jti": secrets.token_hex(16),
            "kubernetes.io": said,
            "sub": f"system:serviceaccount:{meta['namespace']}:{meta['name']}",
        }
        return jwt.encode(claims, self._signing_key(), algorithm=_ALGORITHM), now + seconds

    def _signing_key(self) -> Any:
        if self._key is None:
            from cryptography.hazmat.primitives.serialization import load_pem_private_key

            self._key = load_pem_private_key(self._key_file.read_bytes(), None)
        return self._key


def admin_token(folder: Path) -> str:
    """The administrator's token, made where there is none."""
    import os

    path = folder / "admin.token"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    return path.read_text(encoding="utf-8").strip()
