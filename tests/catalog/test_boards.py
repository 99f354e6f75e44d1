"""Boards add up with the catalog's models and instance types, and say of pairs of GPUs what such machines print."""

from __future__ import annotations

import pytest

from fairway.catalog.boards import Board, board_of, boards, plain_board
from fairway.catalog.catalog import load_catalog

ALL = list(boards().values())


@pytest.mark.parametrize("board", ALL, ids=lambda b: b.name)
def test_a_board_adds_up(board: Board) -> None:
    catalog = load_catalog()
    models = [catalog.gpu(name) for name in board.models]
    assert all(models)
    assert set(board.numa) <= set(range(board.numa_nodes))
    for name in board.types:
        kind = catalog.instance_type(name)
        assert kind is not None and (kind.cpu_milli, kind.gpus) == (board.cpus * 1000, board.gpus)
        assert kind.gpu in board.models
    for a in range(board.gpus):
        for b in range(board.gpus):
            assert board.pcie(a, b) == board.pcie(b, a)
            assert board.nvlinks(a, b, models[0]) == board.nvlinks(b, a, models[0])
            if board.pcie(a, b) == "PIX":
                assert board.numa[a] == board.numa[b]
    for a in range(board.numa_nodes):
        assert board.distance(a, a) == 10
        assert all(board.distance(a, b) == board.distance(b, a) >= 10 for b in range(board.numa_nodes))


def test_no_gpu_of_a_v100_mesh_has_more_than_six_links() -> None:
    board, model = boards()["dgx-1v"], load_catalog().gpu("V100-SXM2-16GB")
    assert [sum(board.nvlinks(a, b, model) for b in range(8)) for a in range(8)] == [6] * 8


def test_which_board_a_node_has() -> None:
    def node(labels: dict[str, str], **notes: str) -> Board | None:
        said = {f"fairway.dev/{k}": v for k, v in notes.items()}
        return board_of({"metadata": {"name": "n", "labels": labels, "annotations": said}})

    kind = {"node.kubernetes.io/instance-type": "Standard_ND96asr_v4"}
    assert (node(kind) or plain_board(0, None)).name == "nd-a100-v4"
    assert (node(kind, board="dgx-h100") or plain_board(0, None)).name == "dgx-h100"
    assert node({}, board="dgx-z") is None
    assert (node({}, gpus="6 NVIDIA-L4") or plain_board(0, None)).numa == (0, 0, 0, 0, 1, 1)
