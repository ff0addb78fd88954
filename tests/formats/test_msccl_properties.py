"""Whatever network, group and collective: what is exported runs, and what is imported again means the same."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.formats import import_msccl
from pccl.formats.msccl.interpreter import check
from pccl.formats.msccl.writer import write
from pccl.units import Bytes
from tests import strategies
from tests.formats.programs import quick

KINDS = st.sampled_from([pccl.AllGather, pccl.ReduceScatter, pccl.AllReduce, pccl.AllToAll])


@st.composite
def exports(draw):
    """An algorithm among some of the NPUs, in any order, and how to export it."""
    topology = draw(strategies.networks())
    group = draw(strategies.groups(topology.num_npus, least=2))
    chunks, size = draw(st.integers(1, 5)), draw(st.sampled_from([4, 1024, 2**20]))
    kind = draw(KINDS)
    algorithm = quick(topology, kind(Bytes(len(group) * chunks * size), group=group, chunks=chunks))
    options = {
        "in_place": draw(st.sampled_from([None, False, True])),
        "instances": draw(st.sampled_from([1, 1, 2, 4])),
        "channels": draw(st.sampled_from([None, None, 1, 2])),
        "protocol": draw(st.sampled_from(["Simple", "LL"])),
    }
    return algorithm, options


@settings(deadline=None, max_examples=60)
@given(exports())
def test_exports_run(problem):
    algorithm, options = problem
    group = algorithm.collectives[0].ranks
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.xml"
        try:
            write(algorithm, path, all_ranks=True, lowered=True, **options)
        except pccl.PcclError as error:
            # On few channels, messages may have to wait for each other in a circle, which nobody starts.
            if not options["channels"] or "allow more channels" not in str(error):
                raise
        else:
            assert check(path, group=group)[0] == []


@settings(deadline=None, max_examples=30)
@given(strategies.networks(limits=False), KINDS, st.integers(1, 3))
def test_there_and_back(topology, kind, chunks):
    """On direct links only, as a message that passes a switch would be added to others there."""
    direct = topology.unroll_switches()
    algorithm = quick(direct, kind(Bytes(direct.num_npus * chunks * 1024), chunks=chunks))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.xml"
        write(algorithm, path)
        again = import_msccl(path, direct, size=algorithm.collectives[0].size)
    pccl.verify(again)
    assert again.conditions.bytes.sum() == algorithm.conditions.bytes.sum()
