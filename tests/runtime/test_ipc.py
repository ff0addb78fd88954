"""Copies between the GPU memories of one box. What needs a GPU is tried where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import pccl
from pccl.cli import main
from pccl.errors import RunError
from pccl.runtime import scripts_of
from pccl.runtime.measure import Job, together
from pccl.runtime.pool import Pool

torch = pytest.importorskip("torch")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")


def test_what_one_rank_writes_on_the_board_another_reads(tmp_path: Path) -> None:
    from pccl.torch.ipc import Board

    path = tmp_path / "board"
    Board.write(path, size=3)
    mine = Board(path, size=3)
    other = Board(path, size=3)
    mine.sent[0, 1, 5] = 1, 2, 3, 4, 5, 6
    mine.taken[2, 2, -1] = 7, 8
    assert other.sent[0, 1, 5].tolist() == [1, 2, 3, 4, 5, 6]
    assert other.taken[2, 2, -1].tolist() == [7, 8]
    assert not other.sent[1].any()


@without_gpu
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    plan = tmp_path / "plan.pccl"
    pccl.synthesize(pccl.topology.ring(2), pccl.AllGather("4kB")).save(plan)
    result = CliRunner().invoke(main, ["run", str(plan), "--on", "cuda"])
    assert result.exit_code == 2
    assert "PyTorch finds no GPU here" in result.output


def test_tensors_of_processors_are_refused() -> None:
    from pccl.torch.compile import _ipc

    with pytest.raises(RunError, match="for tensors on GPUs"):
        _ipc(None, torch.device("cpu"), None)  # type: ignore[arg-type]


@needs_gpu
@pytest.mark.parametrize(
    "kind", [pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce, pccl.AllToAll]
)
def test_ranks_that_share_a_gpu_get_exact_results(kind: type[pccl.Collective]) -> None:
    scripts = scripts_of(pccl.synthesize(pccl.topology.ring(4), kind("1MiB")))
    job = Job(((1000,), (12_345,)), "float32", iterations=2)
    with Pool(4, "pccl.torch.ipc:connect", 60) as pool:
        outcomes = together(pool.run("pccl.runtime.measure:measure_rank", scripts, job))
    assert [sum(outcome.wrong) for outcome in outcomes] == [0, 0]
