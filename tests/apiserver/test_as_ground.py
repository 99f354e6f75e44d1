"""A served cluster, asked by its data folder and by a kubeconfig: `fairway.ground` reads, and writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from apiserver_serving import Served, served

from fairway.errors import FairwayError
from fairway.ground import open_ground
from fairway.kube.objects import Key, Obj, name_of


def test_a_server_is_asked_over_its_api_and_by_a_kubeconfig(tmp_path: Path) -> None:
    data = tmp_path / "data"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"capacity": {"cpu": "4"}},
    }
    with served(data, fleet=(node,)) as api:
        api.until_ready()
        api.ask(
            "POST",
            "/api/v1/namespaces/default/secrets",
            {"metadata": {"name": "hidden"}, "data": {"k": "dg=="}},
        )
        for path, kind in ((data, "served"), (data / "kubeconfig", "cluster")):
            ground = open_ground(path)
            moment = ground.at()
            assert ground.kind == kind and not ground.history().info.notes
            assert [name_of(n) for n in moment.store.objects("Node")] == ["n1"]
            assert moment.store.get(Key("Namespace", "", "kube-system")) is not None
            # What was listed and is empty is known to be.
            assert (
                "PersistentVolumeClaim" not in moment.unseen
                and "ClusterQueue.kueue.x-k8s.io" not in moment.unseen
            )
            secret = moment.store.get(Key("Secret", "default", "hidden"))
            # Of our own server the names of keys are read; of any other nothing.
            assert (None if secret is None else secret["data"]) == ({"k": ""} if kind == "served" else None)
    assert [name_of(n) for n in open_ground(data).at().store.objects("Node")] == ["n1"]
    with pytest.raises(FairwayError):
        open_ground(data / "kubeconfig").at()


def test_what_a_user_may_not_read_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with served(data) as api:
        api.until_ready()
        account = "/api/v1/namespaces/default/serviceaccounts/default/token"
        _, made = api.ask("POST", account, {"spec": {}})
        path = tmp_path / "config"
        path.write_text(json.dumps(_config(api, made["status"]["token"])), encoding="utf-8")
        moment = open_ground(path).at()
    assert "Pod" in moment.unseen and "Node" in moment.unseen
    assert any(note.startswith("may not list") and "Pod" in note for note in moment.notes)


def _config(api: Served, token: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [
            {
                "name": "k",
                "cluster": {"server": api.server.url, "certificate-authority": str(api.pki / "ca.crt")},
            }
        ],
        "users": [{"name": "u", "user": {"token": token}}],
    }
