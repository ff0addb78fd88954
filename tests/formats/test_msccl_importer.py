"""Importing: what a file does, as an algorithm that the verifier accepts and that takes as long as it should."""

from __future__ import annotations

import pytest

import pccl
from pccl.formats import import_msccl
from pccl.formats.msccl.writer import write
from pccl.topology import Link, Topology
from pccl.units import Bytes
from tests.formats.programs import quick
from tests.formats.test_msccl import GROUP, KINDS, synthesized
from tests.formats.test_msccl_interpreter import GOOD, algo, all_pairs, block, pair, rank, step


def returned(algorithm, tmp_path, topology=None, size=None, **options):
    """Export an algorithm and import it again."""
    write(algorithm, tmp_path / "a.xml", **({"all_ranks": True} if "members" in options else {}))
    return import_msccl(
        tmp_path / "a.xml",
        topology or algorithm.topology,
        size=size or algorithm.collectives[0].size,
        **options,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["ring", "mesh", "dgx1"])
def test_there_and_back(name, kind, tmp_path):
    """One chunk each: nothing that the runtimes need takes any time in our model."""
    algorithm = synthesized(name, kind, 1)
    again = returned(algorithm, tmp_path)
    assert len(again.transfers) == len(algorithm.transfers)
    assert int(again.duration) <= 1.2 * int(algorithm.duration)
    assert again.collectives[0].kind == kind
    assert again.conditions == algorithm.conditions
    assert again.provenance.method == "imported from a.xml"


@pytest.mark.parametrize("kind", KINDS)
def test_relays_outside_the_group(kind, tmp_path):
    algorithm = synthesized("relayed group", kind, 4)
    size = algorithm.collectives[0].size
    if kind != "all-reduce":  # all sixteen ranks have room in the buffers
        size = Bytes(int(size) // 5 * 16)
    again = returned(algorithm, tmp_path, size=size, members=GROUP)
    assert again.collectives[0].ranks == GROUP
    assert again.conditions == algorithm.conditions


@pytest.mark.parametrize("kind", ["all-gather", "all-to-all"])
def test_messages_find_their_way_through_switches(kind, tmp_path):
    again = returned(synthesized("2d switch", kind, 1), tmp_path)
    assert set(again.topology.switches.tolist()) & set(again.transfers.dst.tolist())


def test_files_say_who_takes_part(tmp_path):
    write(synthesized("relayed group", "all-gather", 1), tmp_path / "a.xml", all_ranks=True)
    again = import_msccl(tmp_path / "a.xml", pccl.topology.mesh(4, 4), size="1MiB")
    assert again.collectives[0].ranks == GROUP


def test_an_all_to_all_of_one_rank_sends_nothing(tmp_path):
    alone = quick(pccl.topology.ring(2), pccl.AllToAll("1kB", group=[1], chunks=1))
    write(alone, tmp_path / "a.xml")
    assert (
        len(import_msccl(tmp_path / "a.xml", alone.topology, size="1kB", group=[1]).transfers) == 0
    )


def test_padded_files_are_refused(tmp_path):
    algorithm = quick(
        pccl.topology.ring(3), pccl.AllToAllV([[0, 1, 2], [3, 0, 0], [1, 1, 1]], chunks=1)
    )
    write(algorithm, tmp_path / "a.xml", padded=True)
    with pytest.raises(pccl.FormatError, match="it is padded, and sends parts of its shares only"):
        import_msccl(tmp_path / "a.xml", algorithm.topology, size="9KiB")


@pytest.mark.parametrize("kind", ["reduce-scatter", "all-reduce"])
def test_sums_pass_switches_one_by_one(kind, tmp_path):
    algorithm = synthesized("switch", kind, 2)
    write(algorithm, tmp_path / "a.xml")
    back = import_msccl(tmp_path / "a.xml", algorithm.topology, size=algorithm.collectives[0].size)
    assert len(back.transfers) == len(algorithm.transfers)
    assert back.transfers.reduce.sum() == algorithm.transfers.reduce.sum()


def test_sums_that_a_switch_would_add_need_direct_links(tmp_path):
    algorithm = synthesized("switch", "reduce-scatter", 1)
    adds = pccl.topology.switch(8, multicast=True, reduce=True)
    with pytest.raises(pccl.FormatError, match=r"partial sums meet in switch 8 .*--unroll"):
        returned(algorithm, tmp_path, adds)
    returned(algorithm, tmp_path, algorithm.topology.unroll_switches())


def test_the_shortest_way(tmp_path):
    """A ring of two ranks on a line of four NPUs: messages pass through the two in the middle."""
    (tmp_path / "a.xml").write_text(GOOD)
    line = pccl.topology.parse_topology("mesh:4x1")
    algorithm = import_msccl(tmp_path / "a.xml", line, size="2kB", group=[0, 3])
    assert len(algorithm.transfers) == 6
    assert algorithm.collectives[0].ranks == (0, 3)
    assert pccl.simulate(algorithm).finish == algorithm.duration
    assert algorithm.duration >= pccl.lower_bound(line, *algorithm.collectives).value


def test_parallel_links_are_used(tmp_path):
    links = [Link(a, b, "1GB/s", "0ns") for a, b in ((0, 1), (0, 1), (1, 0))]
    wide = [rank(me, *pair(me).replace('cnt="1"', 'cnt="2"').replace('off="1"', 'off="2"').splitlines()[1:-1],
                 chunks=(2, 4, 0)) for me in (0, 1)]  # fmt: skip
    (tmp_path / "a.xml").write_text(algo(*wide, nchunksperloop=4))
    algorithm = import_msccl(tmp_path / "a.xml", Topology.from_links(2, links), size="4kB")
    assert sorted(algorithm.transfers.link.tolist()) == [0, 1, 2, 2]


def test_an_all_reduce_of_one_chunk_is_cut_into_shares(tmp_path):
    one = {"chunks": (1, 1, 0)}
    ranks = [
        rank(
            0,
            block(0, 1, -1, step(0, "s", "i0", "o0")),
            block(1, -1, 1, step(0, "r", "o0", "o0")),
            **one,
        ),
        rank(1, block(0, 0, 0, step(0, "rrcs", "i0", "o0")), **one),
    ]
    (tmp_path / "a.xml").write_text(algo(*ranks, nchunksperloop=1, coll="allreduce"))
    algorithm = import_msccl(tmp_path / "a.xml", pccl.topology.ring(2), size="2kB")
    assert len(algorithm.conditions) == 2
    assert len(algorithm.transfers) == 4


def test_an_all_reduce_as_others_write_it(tmp_path):
    (tmp_path / "a.xml").write_text(all_pairs(4))
    machine = pccl.topology.fully_connected(4)
    algorithm = import_msccl(tmp_path / "a.xml", machine, size="4MB")
    assert len(algorithm.transfers) == 4 * 12  # everybody sends everything to everybody
    assert quick(machine, *algorithm.collectives).duration < algorithm.duration


def test_older_files_without_sizes(tmp_path):
    text = GOOD.replace(' outofplace="1" minBytes="0" maxBytes="1048576"', "")
    (tmp_path / "a.xml").write_text(text)
    import_msccl(tmp_path / "a.xml", pccl.topology.ring(2), size="2kB")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (GOOD, {"size": "3B"}, "size 3B does not divide into 2 chunks"),
        (
            GOOD,
            {"topology": pccl.topology.ring(3)},
            "is for 2 ranks, not for 3 NPUs; say which NPUs with group",
        ),
        (GOOD, {"members": [0, 7]}, "has ranks 0 to 1"),
        (GOOD.replace("allgather", "broadcast"), {}, "'broadcast' cannot be imported"),
        (GOOD.replace("<tb", "<tc", 1), {}, "pccl check"),
        (GOOD.replace('type="r"', 'type="cpy"', 1), {}, "sends a message that nobody receives"),
        (
            GOOD.replace('ngpus="2"', 'ngpus="1"'),
            {"topology": pccl.topology.ring(1)},
            "ngpus is 1, but there are 2",
        ),
        (
            GOOD.replace('depid="-1"', 'depid="9"', 1),
            {},
            "waits for step -1 of tb 9, which is not there",
        ),
        (
            GOOD.replace('srcoff="0"', 'srcoff="9"', 1),
            {},
            r"i\[9:10\] is outside a buffer of 1 chunk",
        ),
        (GOOD.replace('srcbuf="i"', 'srcbuf="x"', 1), {}, "there is no buffer 'x'"),
        (GOOD.replace("allgather", "allreduce"), {}, "does not map onto ring:2"),
        ("", {}, "there is no element 'algo'"),
    ],
)
def test_what_does_not_map(text, options, message, tmp_path):
    (tmp_path / "a.xml").write_text(text)
    settings = {"topology": pccl.topology.ring(2), "size": "2kB"} | options
    with pytest.raises(pccl.FormatError, match=message):
        import_msccl(tmp_path / "a.xml", **settings)


def test_without_a_way(tmp_path):
    (tmp_path / "a.xml").write_text(GOOD)
    with pytest.raises(pccl.TopologyError, match="no way from NPU 1 to NPU 0"):
        import_msccl(
            tmp_path / "a.xml", Topology.from_links(2, [Link(0, 1, "1GB/s", "0ns")]), size="2kB"
        )
