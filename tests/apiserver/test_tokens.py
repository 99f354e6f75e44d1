"""Service accounts' tokens: for whom they are, what they are bound to, and that they end with it."""

from __future__ import annotations

from typing import Any

import jwt
import pytest
from apiserver_serving import Served

from fairway.apiserver.auth.tokens import ISSUER
from fairway.kube.timestamps import SECOND_US, parse_rfc3339

HOME = "/api/v1/namespaces/default"
ACCOUNT = f"{HOME}/serviceaccounts/worker"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"serviceAccountName": "worker", "nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture(scope="module")
def home(api: Served) -> Served:
    meta = {"name": "worker"}
    api.ask(
        "POST", f"{HOME}/serviceaccounts", {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    )
    return api


def token(home: Served, account: str = ACCOUNT, **spec: Any) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    code, answer = home.ask("POST", f"{account}/token", body)
    assert code == 201, answer
    found: str = answer["status"]["token"]
    return found


def who(home: Served, bearer: str) -> tuple[int, dict[str, Any]]:
    """What the server makes of a token."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    headers = {"Authorization": f"Bearer {bearer}"}
    code, said = home.ask("POST", path, body, headers=headers, certificate=False)
    return code, said.get("status", {}).get("userInfo", {}) if code == 201 else said


def reviewed(home: Served, bearer: str, *audiences: str) -> dict[str, Any]:
    spec = {"token": bearer, **({"audiences": list(audiences)} if audiences else {})}
    code, said = home.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {**REVIEW, "spec": spec})
    assert code == 201, said
    status: dict[str, Any] = said["status"]
    return status


def test_a_token_for_somebody_else_does_not_open_this_door(home: Served) -> None:
    foreign = token(home, audiences=["vault"])
    assert who(home, foreign)[0] == 401
    said = reviewed(home, foreign)
    assert "authenticated" not in said
    assert said["error"] == f'token audiences ["vault"] is invalid for the target audiences ["{ISSUER}"]'
    assert reviewed(home, foreign, "vault", "other")["audiences"] == ["vault"]
    assert who(home, token(home, audiences=["vault", ISSUER]))[0] == 201


def test_the_administrators_token_is_for_this_server_alone(home: Served) -> None:
    admin = (home.pki / "admin.token").read_text()
    assert reviewed(home, admin)["authenticated"]
    assert reviewed(home, admin, "vault") == {
        "user": {},
        "error": "invalid bearer token",
    }


BOUND = {
    "a secret": (SECRET, f"{HOME}/secrets"),
    "a pod": ({**POD, "spec": {**POD["spec"], "nodeName": None}}, f"{HOME}/pods"),
    "a node": (NODE, "/api/v1/nodes"),
}


@pytest.mark.parametrize("name", BOUND)
def test_a_token_ends_with_what_it_is_bound_to(home: Served, name: str) -> None:
    obj, path = BOUND[name]
    code, made = home.ask("POST", path, obj)
    assert code == 201, made
    meta = obj["metadata"]
    bound = token(home, boundObjectRef={"apiVersion": "v1", "kind": obj["kind"], "name": meta["name"]})
    assert who(home, bound)[0] == 201
    home.ask("DELETE", f"{path}/{meta['name']}?gracePeriodSeconds=0")
    assert who(home, bound)[0] == 401
    assert reviewed(home, bound)["error"] == "service account token has been invalidated"
    home.ask("POST", path, obj)
    assert who(home, bound)[0] == 401, "another one of the same name"
    home.ask("DELETE", f"{path}/{meta['name']}?gracePeriodSeconds=0")


def test_a_pods_token_names_its_node(home: Served) -> None:
    _, node = home.ask("POST", "/api/v1/nodes", NODE)
    _, pod = home.ask("POST", f"{HOME}/pods", POD)
    bound = token(home, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    prefix = "authentication.kubernetes.io/"
    extra = who(home, bound)[1]["extra"]
    assert extra[f"{prefix}pod-uid"] == [pod["metadata"]["uid"]]
    assert extra[f"{prefix}node-name"] == ["n"]
    assert extra[f"{prefix}node-uid"] == [node["metadata"]["uid"]]
    home.ask("DELETE", "/api/v1/nodes/n")
    assert who(home, bound)[0] == 201
    home.ask("DELETE", f"{HOME}/pods/p?gracePeriodSeconds=0")


def test_a_node_that_is_not_there_is_named_without_its_uid(home: Served) -> None:
    home.ask("POST", f"{HOME}/pods", {**POD, "spec": {**POD["spec"], "nodeName": "unheard"}})
    bound = token(home, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    claims = jwt.decode(bound, options={"verify_signature": False})["kubernetes.io"]
    assert claims["node"] == {"name": "unheard", "uid": ""}
    prefix = "authentication.kubernetes.io/"
    extra = who(home, bound)[1]["extra"]
    assert extra[f"{prefix}node-name"] == ["unheard"] and f"{prefix}node-uid" not in extra
    home.ask("DELETE", f"{HOME}/pods/p?gracePeriodSeconds=0")


def test_a_token_says_how_long_it_holds_inside_and_beside_it(home: Served) -> None:
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 700},
    }
    _, answer = home.ask("POST", f"{ACCOUNT}/token", body)
    claims = jwt.decode(answer["status"]["token"], options={"verify_signature": False})
    assert claims["exp"] - claims["iat"] == answer["spec"]["expirationSeconds"] == 700
    assert claims["nbf"] == claims["iat"]
    assert parse_rfc3339(answer["status"]["expirationTimestamp"]) == claims["exp"] * SECOND_US


REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "a pod of another account": ({"boundObjectRef": {"kind": "Pod", "name": "q"}}, 400),
    "a kind no token is bound to": ({"boundObjectRef": {"kind": "Service", "name": "q"}}, 400),
    "a Secret that is not there": ({"boundObjectRef": {"kind": "Secret", "name": "none"}}, 404),
    "another Secret by now": ({"boundObjectRef": {"kind": "Secret", "name": "s2", "uid": "x"}}, 409),
    "nine minutes": ({"expirationSeconds": 540}, 422),
    "longer than for ever": ({"expirationSeconds": 1 << 33}, 422),
    "audiences that are no list": ({"audiences": "vault"}, 400),
    "an object that is a text": ({"boundObjectRef": "p"}, 400),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tokens_that_are_not_made(home: Served, name: str) -> None:
    home.ask(
        "POST",
        f"{HOME}/pods",
        {**POD, "metadata": {"name": "q"}, "spec": {"containers": POD["spec"]["containers"]}},
    )
    home.ask("POST", f"{HOME}/secrets", {**SECRET, "metadata": {"name": "s2"}})
    spec, want = REFUSED[name]
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    code, said = home.ask("POST", f"{ACCOUNT}/token", body)
    assert code == want, said
