"""Bearer tokens: the administrator's static one, and service accounts' signed ones.

A service account's token is a JWT bound to the account's UID (and a pod's, a Secret's or a node's, where asked): it
stops working when that is deleted. It opens this door only where the server is among its audiences. Its life is
counted in wall time, as its holder counts it, whatever time it is in the cluster.

Source: apiserver pkg/authentication, pkg/serviceaccount/claims.go (v1.36).
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairway.admission.rbac.impersonation import service_account_groups
from fairway.admission.rbac.rules import quoted_list
from fairway.admission.request import ADMIN, ALL_AUTHENTICATED, User
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US, parse_rfc3339

ISSUER = "https://kubernetes.default.svc.cluster.local"
_ALGORITHM = "ES256"
DEFAULT_SECONDS = 3600
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32

_KEPT = 1024
# What a token is bound to may be gone this long in the cluster's time. Source: jwt.DefaultLeeway.
_LEEWAY_US = 60 * SECOND_US


class Unaccepted(Exception):
    """Nobody's token, or not for here. The text is kube-apiserver's."""


class Tokens:
    """Makes and checks tokens."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._store = store
        self._key_file = folder / "sa.key"
        self._admin = admin_token(folder)
        self._key: Any = None
        self._known: dict[str, dict[str, Any]] = {}

    def user(self, token: str) -> User | None:
        """Whose token for this server it is; None for nobody's, and for one that has expired or lost its object."""
        try:
            return self.reviewed(token, (ISSUER,))[0]
        except Unaccepted:
            return None

    def reviewed(self, token: str, wanted: Sequence[str]) -> tuple[User, list[str]]:
        """Whose token it is, and for which of the audiences wanted.

        Raises: Unaccepted.
        """
        if hmac.compare_digest(token.encode(), self._admin.encode()):
            if ISSUER not in wanted:
                raise Unaccepted("invalid bearer token")
            return ADMIN, [ISSUER]
        claims = self._claims(token)
        if claims is None:
            raise Unaccepted("invalid bearer token")
        said = claims.get("aud") or []
        had = [said] if isinstance(said, str) else said
        shared = [a for a in had if a in wanted]
        if not shared:
            raise Unaccepted(
                f"token audiences {quoted_list(had)} is invalid for the target audiences {quoted_list(wanted)}"
            )
        return self._account_user(claims), shared

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

    def _account_user(self, claims: dict[str, Any]) -> User:
        """Raises: Unaccepted where something the token is bound to is gone."""
        said = claims["kubernetes.io"]
        namespace, account = said["namespace"], said["serviceaccount"]
        secret, pod, node = said.get("secret"), said.get("pod"), said.get("node")
        self._require("ServiceAccount", namespace, account)
        extra = [("credential-id", f"JTI={claims.get('jti', '')}")]
        if secret is not None:
            self._require("Secret", namespace, secret)
        if pod is not None:
            self._require("Pod", namespace, pod)
            extra += [("pod-name", pod["name"]), ("pod-uid", pod["uid"])]
        elif node is not None:
            self._require("Node", "", node)
        if node is not None:
            # A pod's token names the node, and does not end with it.
            extra += [("node-name", node["name"]), *([("node-uid", node["uid"])] if node["uid"] else [])]
        name = f"system:serviceaccount:{namespace}:{account['name']}"
        groups = (*service_account_groups(namespace), ALL_AUTHENTICATED)
        told = tuple(sorted((f"authentication.kubernetes.io/{key}", (value,)) for key, value in extra))
        return User(name, groups, account["uid"], told)

    def _require(self, gk: str, namespace: str, reference: dict[str, Any]) -> None:
        """Raises: Unaccepted for an object that is gone, another one by now, or on its way out for a minute."""
        obj = self._store.get(Key(gk, namespace, reference["name"]))
        if obj is None or obj["metadata"]["uid"] != reference["uid"]:
            raise Unaccepted("service account token has been invalidated")
        deleted = obj["metadata"].get("deletionTimestamp")
        if deleted and parse_rfc3339(deleted) < self._store.now_us - _LEEWAY_US:
            raise Unaccepted("service account token has been invalidated")

    def issue(self, account: Obj, seconds: int, audiences: list[str], bound: Obj | None) -> tuple[str, int]:
        """A token for a service account, and when it expires (seconds since 1970). A pod's names its node."""
        import jwt

        now = int(time.time())
        meta = account["metadata"]
        said: dict[str, Any] = {
            "namespace": meta["namespace"],
            "serviceaccount": {"name": meta["name"], "uid": meta["uid"]},
        }
        if bound is not None:
            said[bound["kind"].lower()] = _reference(bound)
            node = (bound.get("spec") or {}).get("nodeName") if bound["kind"] == "Pod" else None
            if node:
                found = self._store.get(Key("Node", "", node))
                said["node"] = {"name": node, "uid": ""} if found is None else _reference(found)
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


def _reference(obj: Obj) -> dict[str, str]:
    return {"name": obj["metadata"]["name"], "uid": obj["metadata"]["uid"]}


def admin_token(folder: Path) -> str:
    """The administrator's token, made where there is none."""
    import os

    path = folder / "admin.token"
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
    return path.read_text(encoding="utf-8").strip()
