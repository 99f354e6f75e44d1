"""What-if, its search, the Python API, the schemas and the tools of agents."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.answers.test_forecasting import world

import fairway
from fairway.answers.schemas import schemas
from fairway.answers.whatif import changes as words
from fairway.answers.whatif.comparing import what_if
from fairway.answers.whatif.playing import World
from fairway.cli.main import main
from fairway.cli.mcp_cmd import tools
from fairway.errors import UserError
from fairway.ground import open_ground
from fairway.kube.timestamps import HOUR_US

SCHEMAS = schemas()


def fits(answer: str, data: object) -> None:
    jsonschema.Draft202012Validator(SCHEMAS[answer]).validate(json.loads(json.dumps(data)))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return world(tmp_path / "plain", kueue=False)


@pytest.fixture
def queued(tmp_path: Path) -> Path:
    return world(tmp_path / "queued", kueue=True)


def effects(path: Path, *changes: str, seeds: int = 1) -> dict[str, tuple[float, float]]:
    asked = tuple(words.read_change(text) for text in changes)
    found = what_if(World(open_ground(path)), asked, seeds=seeds, processes=1)
    fits("what-if", found.as_json())
    return {e.name: (e.before, e.after) for e in found.effects}


def test_more_nodes_end_the_wait(plain: Path) -> None:
    before, after = effects(plain, "nodes=+3")["wait max"]
    assert before == pytest.approx(10_800e6, rel=0.4)
    assert after < 60e6


def test_no_node_left_and_nothing_starts(plain: Path) -> None:
    before, after = effects(plain, "nodes=-1")["pods not started at the end"]
    assert (before, after) == (0, 16)


def test_less_quota_makes_waits_longer(queued: Path) -> None:
    found = effects(queued, "quota/main/all/nvidia.com/gpu=-4")
    before, after = found["queue length, mean"]
    assert after > before + 0.1


def test_twice_the_load_waits_longer(plain: Path) -> None:
    before, after = effects(plain, "load=2")["queue length, mean"]
    assert after > before


def test_a_cluster_that_was_dumped_is_run_forward(plain: Path, tmp_path: Path) -> None:
    twin = open_ground(plain).at("130m").twin
    items = [obj for gk in ("Node", "Job.batch", "Pod") for obj in twin.store.objects(gk)]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    ground = open_ground(dump)
    assert ground.kind == "dump"
    found = what_if(World(ground, span_us=HOUR_US), (words.read_change("nodes=+1"),), seeds=2, processes=1)
    by_name = {e.name: e for e in found.effects}
    assert by_name["queue length, mean"].after < by_name["queue length, mean"].before
    # Of the hour ahead, without what was before it.
    assert by_name["GPU-hours offered"].before == 8 * 1000 * HOUR_US
    answer = fairway.Ground(dump).forecast(futures=3, horizon="2h", processes=1)
    assert [one.object for one in answer.objects] == ["Job/default/three", "Job/default/four"]
    assert any("no history" in note for note in answer.notes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nodes", "expected nodes=+4"),
        ("nodes=many", "expected nodes=+4"),
        ("nodes=+1.5", "whole number"),
        ("load=+2", "factor"),
        ("load=1e9", "expected nodes=+4"),
        ("quota/main=3", "expected nodes=+4"),
        ("colour=3", "expected nodes=+4"),
        ("nodes=-7", "1 such nodes are there"),
        ("nodes/tpu-=+1", "no node is named tpu-"),
        ("nodes=+99999999", "expected 0 to"),
        ("quota/nobody/all/cpu=3", "nobody"),
        ("quota/main/all/tpu=3", "has no tpu"),
        ("priority/top=3", "no PriorityClass"),
    ],
)
def test_changes_that_make_no_sense(
    queued: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["what-if", text, "--on", str(queued), "--seeds", "1"]) == 2
    assert said in capsys.readouterr().err


def test_a_priority_class_gets_another_value(tmp_path: Path) -> None:
    ground = open_ground(Path(__file__).parents[2] / "examples/01-two-teams")
    twin = ground.at("1m").fork()
    gk = "PriorityClass.scheduling.k8s.io"
    name = twin.store.objects(gk)[0]["metadata"]["name"]
    words.carry_out(twin, [words.read_change(f"priority/{name}=77")])
    assert [o["value"] for o in twin.store.objects(gk) if o["metadata"]["name"] == name] == [77]
    words.carry_out(twin, [words.deleted(f"priorityclass/{name}")])
    with pytest.raises(UserError):
        words.carry_out(twin, [words.read_change(f"priority/{name}=78")])


def test_the_smallest_number_of_nodes(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["what-if", "nodes=+0", "--on", str(plain), "--search", "wait max < 1m"]
    asked += ["--between", "0..4", "--seeds", "1"]
    assert main([*asked, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    fits("search", found)
    tried = {t["amount"]: t["held"] for t in found["tried"]}
    assert tried[found["smallest"]] == 1
    assert tried.get(found["smallest"] - 1, 0) == 0
    assert main([*asked[:-4], "--between", "0..0", "--seeds", "1"]) == 1
    assert "not even 0" in capsys.readouterr().out
    assert main(["what-if", "nodes=+0", "--on", str(plain), "--search", "wait of prod"]) == 2


def test_the_table(plain: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", "nodes=+1", "--on", str(plain), "--seeds", "2"]) == 0
    printed = capsys.readouterr().out
    assert "wait max" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_manifests_patches_and_deletions(
    queued: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "more.yaml"
    policy.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: another}\n")
    held = '{"spec": {"stopPolicy": "Hold"}}'
    asked = ["what-if", "-f", str(policy), "--patch", f"clusterqueue/main={held}", "--on", str(queued)]
    asked += ["--seeds", "1", "-o", "json"]
    assert main(asked) == 0
    found = {e["name"]: e for e in json.loads(capsys.readouterr().out)["effects"]}
    assert found["pods succeeded"]["after"] < found["pods succeeded"]["before"]
    assert main(["what-if", "--patch", "clusterqueue/main=[]", "--on", str(queued)]) == 2
    assert main(["what-if", "--delete", "clusterqueue/other", "--on", str(queued)]) == 2
    assert main(["what-if", "--on", str(queued)]) == 2


def test_the_api_and_the_schemas(queued: Path) -> None:
    ground = fairway.Ground(queued)
    assert ground.kind == "scenario"
    fits("explain", ground.explain("job/three", at="130m").as_json())
    fits("forecast", ground.forecast(at="130m", futures=3, horizon="4h", processes=1).as_json())
    fits("what-if", ground.what_if("load=1", seeds=1).as_json())
    manifest = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"
    fits("check", ground.check(manifest, at="130m").as_json())
    fits("backtest", ground.backtest(["125m", "130m"], futures=2, horizon="4h").as_json())
    with pytest.raises(AttributeError):
        fairway.nothing  # noqa: B018


def test_the_tools_of_agents_answer_as_the_commands(queued: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_name = {tool.__name__: tool for tool in tools(str(queued))}
    assert sorted(by_name) == ["check", "explain", "forecast", "what_if"]
    assert all(tool.__doc__ for tool in by_name.values())
    fits("forecast", by_name["forecast"](at="130m", futures=2, horizon="2h"))
    fits("explain", by_name["explain"]("job/three", at="130m"))
    assert main(["mcp", "--schemas"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMAS


def test_without_the_sdk_its_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fairway.extras.have", lambda module: False)
    assert main(["mcp"]) == 3
    assert "fairway[mcp]" in capsys.readouterr().err
