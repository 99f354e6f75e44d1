"""Tokens beside their server: what each says, whose it is, and when it is nobody's any more."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import jwt
import pytest

from fairway.apiserver.auth import tokens
from fairway.apiserver.auth.certificates import ensure
from fairway.apiserver.auth.tokens import ISSUER, Tokens, Unaccepted, admin_token
from fairway.cluster.store import Store
from fairway.kube.objects import Key, Obj
from fairway.kube.timestamps import SECOND_US

NOW_S = 1_800_000_000


class World:
    def __init__(self, folder: Path) -> None:
        self.store = Store(seed=1, now_us=NOW_S * SECOND_US)
        self.tokens = Tokens(folder, self.store)
        self.account = self.make("ServiceAccount", "worker")

    def make(self, kind: str, name: str, **spec: Any) -> Obj:
        meta = {"name": name, **({} if kind == "Node" else {"namespace": "team"})}
        body = {"apiVersion": "v1", "kind": kind, "metadata": meta, **({"spec": spec} if spec else {})}
        return self.store.create(body)

    def issue(self, bound: Obj | None = None, *audiences: str, seconds: int = 3600) -> str:
        return self.tokens.issue(self.account, seconds, list(audiences), bound)[0]

    def refusal(self, token: str, *wanted: str) -> str:
        try:
            self.tokens.reviewed(token, wanted or (ISSUER,))
        except Unaccepted as why:
            return str(why)
        return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found: Path = tmp_path_factory.mktemp("tokens") / "pki"
    ensure(found, "127.0.0.1")
    return found


@pytest.fixture
def world(folder: Path) -> World:
    return World(folder)


def claims(token: str) -> dict[str, Any]:
    found: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return found


def test_what_a_token_says(world: World) -> None:
    before = int(time.time())
    token, expires = world.tokens.issue(world.account, 600, [], None)
    said = claims(token)
    assert before <= said["iat"] <= time.time() and said["nbf"] == said["iat"]
    assert said["exp"] == expires == said["iat"] + 600
    assert (said["aud"], said["iss"], said["sub"]) == ([ISSUER], ISSUER, "system:serviceaccount:team:worker")
    uid = world.account["metadata"]["uid"]
    assert said["kubernetes.io"] == {"namespace": "team", "serviceaccount": {"name": "worker", "uid": uid}}
    assert len(said["jti"]) == 32 and said["jti"] != claims(world.issue())["jti"]
    assert jwt.get_unverified_header(token)["alg"] == "ES256"
    assert claims(world.issue(None, "a", "b"))["aud"] == ["a", "b"]


def test_whose_it_is(world: World) -> None:
    node, secret = world.make("Node", "n"), world.make("Secret", "s")
    pod = world.make("Pod", "p", nodeName="n", containers=[{"name": "c", "image": "i"}])
    homeless = world.make("Pod", "q", containers=[{"name": "c", "image": "i"}])
    lost = world.make("Pod", "r", nodeName="gone", containers=[{"name": "c", "image": "i"}])

    def extra(bound: Obj | None) -> dict[str, str]:
        token = world.issue(bound)
        user = world.tokens.user(token)
        assert user is not None
        assert (
            user.name == "system:serviceaccount:team:worker" and user.uid == world.account["metadata"]["uid"]
        )
        assert user.groups == (
            "system:serviceaccounts",
            "system:serviceaccounts:team",
            "system:authenticated",
        )
        told = {key.removeprefix("authentication.kubernetes.io/"): value for key, (value,) in user.extra}
        assert list(told) == sorted(told)
        assert told.pop("credential-id") == f"JTI={claims(token)['jti']}"
        return told

    def uid(obj: Obj) -> str:
        return str(obj["metadata"]["uid"])

    assert extra(None) == extra(secret) == {}
    assert extra(node) == {"node-name": "n", "node-uid": uid(node)}
    assert extra(homeless) == {"pod-name": "q", "pod-uid": uid(homeless)}
    assert extra(lost) == {"pod-name": "r", "pod-uid": uid(lost), "node-name": "gone"}
    assert extra(pod) == {
        "pod-name": "p",
        "pod-uid": uid(pod),
        "node-name": "n",
        "node-uid": uid(node),
    }


GONE = "service account token has been invalidated"


@pytest.mark.parametrize("kind", ["Secret", "Pod", "Node", "ServiceAccount"])
def test_a_token_ends_with_what_it_is_bound_to(world: World, kind: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]} if kind == "Pod" else {}
    bound = world.account if kind == "ServiceAccount" else world.make(kind, "b", **spec)
    token = world.issue(None if kind == "ServiceAccount" else bound)
    assert world.refusal(token) == "" and world.tokens.user(token) is not None
    meta = bound["metadata"]
    key = Key(kind, meta.get("namespace", ""), meta["name"])
    world.store.delete(key, **({"grace_s": 0} if kind == "Pod" else {}))
    assert world.refusal(token) == GONE and world.tokens.user(token) is None
    world.make(kind, meta["name"], **spec)
    assert world.refusal(token) == GONE, "another one of its name"


def test_a_pods_token_does_not_end_with_its_node(world: World) -> None:
    world.make("Node", "n")
    pod = world.make("Pod", "p", nodeName="n", containers=[{"name": "c", "image": "i"}])
    token = world.issue(pod)
    world.store.delete(Key("Node", "", "n"))
    assert world.refusal(token) == ""


def test_what_is_on_its_way_out_has_a_minute(world: World) -> None:
    secret = world.make("Secret", "s")
    world.store.patch(Key("Secret", "team", "s"), {"metadata": {"finalizers": ["x/y"]}})
    token = world.issue(secret)
    world.store.delete(Key("Secret", "team", "s"))
    for after_s, why in ((0, ""), (60, ""), (60.000001, GONE)):
        world.store.now_us = NOW_S * SECOND_US + round(after_s * SECOND_US)
        assert world.refusal(token) == why, after_s


def test_for_whom_it_is(world: World) -> None:
    token = world.issue(None, "a", "b")
    assert world.tokens.user(token) is None
    assert world.tokens.reviewed(token, ("b", "x", "a"))[1] == ["a", "b"]
    assert world.refusal(token, "x") == (
        'token audiences ["a" "b"] is invalid for the target audiences ["x"]'
    )
    key = world.tokens._signing_key()
    one = jwt.encode({**claims(token), "aud": "a"}, key, algorithm="ES256")
    assert world.tokens.reviewed(one, ("a",))[1] == ["a"]
    none = jwt.encode({k: v for k, v in claims(token).items() if k != "aud"}, key, algorithm="ES256")
    assert world.refusal(none, "x") == 'token audiences [] is invalid for the target audiences ["x"]'


def test_what_is_no_token_of_ours(world: World) -> None:
    token = world.issue()
    key = world.tokens._signing_key()
    said = claims(token)
    head, body, signature = token.split(".")
    for other in (
        "",
        "x",
        "a.b",
        f"{token}.x",
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        jwt.encode({**said, "iss": "https://other"}, key, algorithm="ES256"),
        jwt.encode({k: v for k, v in said.items() if k != "exp"}, key, algorithm="ES256"),
        jwt.encode({k: v for k, v in said.items() if k != "sub"}, key, algorithm="ES256"),
        jwt.encode({k: v for k, v in said.items() if k != "iat"}, key, algorithm="ES256"),
        jwt.encode(said, "secret" * 8, algorithm="HS256"),
        world.issue(seconds=-1),
        world.issue(seconds=0),
    ):
        assert world.refusal(other) == "invalid bearer token", other
        assert world.tokens.user(other) is None


def test_a_token_that_is_known_expires_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    token = world.issue(seconds=600)
    assert world.refusal(token) == "" and token in world.tokens._known
    expires = claims(token)["exp"]
    for now_s, why in ((expires - 0.5, ""), (expires, "invalid bearer token")):
        monkeypatch.setattr(time, "time", lambda now_s=now_s: now_s)
        assert world.refusal(token) == why


def test_a_thousand_tokens_are_remembered(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_KEPT", 2)
    given = [world.issue() for _ in range(3)]
    for token in given[:2]:
        assert world.refusal(token) == ""
    assert list(world.tokens._known) == given[:2]
    assert world.refusal(given[0]) == "" and list(world.tokens._known) == given[:2]
    assert world.refusal(given[2]) == "" and list(world.tokens._known) == given[2:]


def test_the_administrators_token_is_for_this_server(world: World, folder: Path, tmp_path: Path) -> None:
    admin = admin_token(folder)
    user = world.tokens.user(admin)
    assert user is not None and "system:masters" in user.groups
    assert world.tokens.reviewed(admin, ("x", ISSUER))[1] == [ISSUER]
    assert world.refusal(admin, "x") == "invalid bearer token"
    assert world.refusal(admin[:-1]) == "invalid bearer token"
    made = admin_token(tmp_path)
    assert admin_token(tmp_path) == made != admin and len(made) >= 43
    assert oct((tmp_path / "admin.token").stat().st_mode & 0o777) == "0o600"
    (tmp_path / "admin.token").write_text("mine\n", encoding="utf-8")
    assert admin_token(tmp_path) == "mine"
