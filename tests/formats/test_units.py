"""Shares of any sizes in files that count in chunks of one size: written and right, or refused in one line."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.formats import FORMATS
from pccl.formats.lowering import lower
from pccl.formats.mscclpp import writer
from pccl.formats.mscclpp.resources import chunk_bytes
from pccl.formats.runtime_files import unit_of
from pccl.units import Bytes
from tests.formats.programs import quick

RING = pccl.topology.ring(3)
# Nothing but 1 divides all of these; together they are far more than any runtime numbers.
PRIMES = [[0, 1_000_003, 7], [310_823_339, 0, 15_485_863], [2, 3, 0]]


def exchange(matrix=PRIMES, **given):
    return quick(RING, pccl.AllToAllV(matrix, chunks=given.pop("chunks", 1), **given))


@st.composite
def matrices(draw):
    """Sizes as they come, of nothing, few bytes, or very many, and perhaps a unit for them."""
    entry = st.one_of(st.just(0), st.integers(1, 50), st.integers(1, 10**9))
    rows = draw(st.lists(st.lists(entry, min_size=3, max_size=3), min_size=3, max_size=3))
    unit = draw(st.sampled_from([None, "1KiB", "64KiB", "3MB"]))
    most = max(1, *map(max, rows))
    return rows, unit, min(draw(st.integers(1, 3)), most)


@settings(deadline=None, max_examples=15)
@given(matrices(), st.booleans())
def test_any_sizes_are_written_and_right_or_refused(problem, padded):
    rows, unit, chunks = problem
    algorithm = exchange(rows, round=unit, chunks=chunks)
    with tempfile.TemporaryDirectory() as folder:
        for entry in FORMATS.values():
            path = Path(folder, entry.name)
            options = {"padded": padded} if entry.name == "msccl" else {}
            refusal = ""
            try:
                pccl.export(algorithm, path, entry.name, **options)
            except pccl.PcclError as error:
                refusal = str(error)
            # Only files that count in chunks may be refused.
            assert not refusal or (entry.checker and len(refusal.splitlines()) == 1)
            if entry.checker and not refusal:
                assert pccl.check(path, entry.name).problems == ()


@settings(deadline=None, max_examples=6)
@given(matrices())
def test_a_report_is_written_of_any_sizes(problem):
    rows, unit, chunks = problem
    with tempfile.TemporaryDirectory() as folder:
        algorithm = exchange(rows, round=unit, chunks=chunks)
        pccl.report(algorithm, Path(folder, "a.html"), baselines=[])


def test_a_file_that_would_count_in_bytes_is_refused_with_the_way_out(tmp_path):
    words = r"no larger one in common than 1B, of which .* and 4,194,304 is the limit"
    with pytest.raises(pccl.PcclError, match=words) as refused:
        pccl.export(exchange(), tmp_path / "a.plan.json")
    unit = str(refused.value).split("--round ")[1].split(",")[0]
    # What the error says is enough.
    facts = pccl.export(exchange(round=unit), tmp_path / "a.plan.json")
    assert facts["checked"].startswith("run by the interpreter")
    with pytest.raises(
        pccl.PcclError, match=r"a buffer would have .* 32,767 is the limit"
    ) as refused:
        pccl.export(exchange(), tmp_path / "a.xml", padded=True)
    unit = str(refused.value).split("--round ")[1].split(",")[0]
    pccl.export(exchange(round=unit), tmp_path / "a.xml", padded=True)
    assert pccl.check(tmp_path / "a.xml")


def test_a_search_for_a_runtime_says_so_as_well():
    with pytest.raises(pccl.PcclError, match="no larger one in common than 1B"):
        pccl.synthesize(RING, pccl.AllToAllV(PRIMES), effort="fast", target="mscclpp")


def test_pieces_that_differ_by_a_byte_do_not_make_chunks_of_a_byte(tmp_path):
    """A third of 1 MiB is no whole number: sent is a little more, in three pieces of equal size."""
    algorithm = exchange([[0, 2**20, 0], [2**21, 0, 2**20], [2**20, 0, 0]], chunks=3)
    assert algorithm.conditions.bytes.min() == 349525
    program = lower(algorithm)
    assert chunk_bytes(program) == unit_of(program) == 349526
    facts = pccl.export(algorithm, tmp_path / "a.plan.json")
    assert "buffers of 9 chunks" in facts["sizes"]
    assert facts["padded"].startswith("from 3MiB to 3.145734MB")
    assert pccl.check(tmp_path / "a.plan.json")


def test_small_shares_are_plans_for_ratios(tmp_path):
    """Few chunks are no trouble, whatever they have in common."""
    pccl.export(exchange([[0, 7, 2], [5, 0, 1], [3, 11, 0]]), tmp_path / "a.plan.json")
    assert pccl.check(tmp_path / "a.plan.json")


def test_a_plan_that_is_too_large_to_be_tried_is_written_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "free_memory", lambda: 100)
    algorithm = quick(RING, pccl.AllGather("3MiB", chunks=1))
    facts = pccl.export(algorithm, tmp_path / "a.plan.json")
    assert facts["checked"].startswith("no, with 12 chunks")


def test_a_check_asks_for_memory_before_it_takes_it(tmp_path):
    """A file may say anything about its buffers."""
    pccl.export(quick(RING, pccl.AllGather("3MiB", chunks=1)), tmp_path / "a.plan.json")
    text = (tmp_path / "a.plan.json").read_text()
    many = text.replace('"input_chunks": 1', '"input_chunks": 200000000')
    (tmp_path / "b.plan.json").write_text(many)
    with pytest.raises(pccl.FormatError, match=r"600,000,\d+ chunks .* takes 83.8 GiB of memory"):
        pccl.check(tmp_path / "b.plan.json")


def test_more_instances_than_there_are_numbers(tmp_path):
    algorithm = quick(RING, pccl.AllGather(Bytes(3 * 2**20), chunks=2))
    with pytest.raises(
        pccl.PcclError, match=r"40000 instances of 6 chunks .* take fewer instances"
    ):
        pccl.export(algorithm, tmp_path / "a.xml", instances=40_000)


@pytest.mark.parametrize(("share", "group"), [(13956, (2, 4)), (1, (1, 5)), (64, (3,))])
def test_equal_shares_of_some_are_an_alltoall_of_all(tmp_path, share, group):
    """Ranks that are no members have room too, as the runtime counts shares by ranks; the export runs the file."""
    matrix = [[share] * len(group)] * len(group)
    box = pccl.topology.parse_topology("ndv5:1")
    plan = pccl.synthesize(box, pccl.AllToAllV(matrix, group=group), effort="fast")
    pccl.export(plan, tmp_path / "some.xml", all_ranks=True)
    pccl.formats.check(tmp_path / "some.xml")
