"""Chakra traces: Google's protocol buffers read them, our simulator replays them, and broken ones are refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings

import pccl
from pccl import (
    Algorithm,
    AllGather,
    AllReduce,
    AllToAll,
    Broadcast,
    FormatError,
    Link,
    PcclError,
    Switch,
    Topology,
)
from pccl.errors import InfeasibleError, TopologyError
from pccl.formats.chakra_files import ABSENT
from pccl.formats.chakra_messages import messages_of
from pccl.formats.chakra_reader import read
from pccl.formats.chakra_replay import replay
from tests.algorithm.examples import LINE, US, network, schedule, star
from tests.end_to_end.program import pccl as program
from tests.formats.chakra_schema import Node, attributes, read_trace, write_trace
from tests.strategies import problems, synthesized

slow_but_fine = settings(deadline=None, suppress_health_check=list(HealthCheck))
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chakra") / "trace"


def export(algorithm: Algorithm, folder: Path, **options: Any) -> Path:
    pccl.export(algorithm, folder, "chakra", **options)
    return folder


def direct(problem: tuple[Topology, Any]) -> tuple[Topology, Any]:
    """The same without switches, which messages do not see."""
    topology, collectives = problem
    return topology.unroll_switches(), collectives


# --- what is written --------------------------------------------------------------------------------------------------


@settings(slow_but_fine, max_examples=25)
@given(problems(limits=False))
def test_protocol_buffers_read_what_we_read(folder: Path, problem) -> None:
    algorithm = synthesized(problem)
    export(algorithm, folder, chain=True)
    trace = read(folder)
    nodes = trace.nodes
    ours = {
        (rank, number): row
        for row, (rank, number) in enumerate(zip(nodes.rank, nodes.id, strict=True))
    }
    after = np.split(trace.before, np.searchsorted(trace.after, np.arange(1, len(nodes))))
    routes = np.split(
        nodes.route.value, np.searchsorted(nodes.route.node, np.arange(1, len(nodes)))
    )
    count = 0
    for rank in range(algorithm.topology.num_npus):
        metadata, theirs = read_trace(folder / f"collective.{rank}.et")
        assert metadata.version
        assert theirs
        for node in theirs:
            values, row = attributes(node), ours[rank, node.id]
            assert not len(UnknownFieldSet(node))
            assert node.type == nodes.kind[row]
            assert f"node {node.id} ({node.name!r}, " in nodes.text(row)
            assert [*node.ctrl_deps, *node.data_deps] == nodes.id[after[row]].tolist()
            assert tuple(routes[row]) == values.pop("pccl_route", ())
            mine = {name: int(column[row]) for name, column in nodes.attributes.items()}
            assert {name: value for name, value in mine.items() if value != ABSENT} == values
            if node.type != COMPUTE:
                assert trace.peer[row] == values["comm_dst" if node.type == SEND else "comm_src"]
        count += len(theirs)
    assert count == len(ours)
    tags, (sends, receptions) = nodes.attributes["comm_tag"], (trace.sends, trace.receptions)
    assert np.array_equal(tags[sends], tags[receptions])
    assert np.array_equal(tags[sends], np.arange(len(sends)))


def test_a_schedule_written_by_hand(folder: Path) -> None:
    """Chunk 0 from NPU 0 by way of 1 to 2, chunk 1 behind it."""
    export(
        schedule(
            LINE, Broadcast("2kB", chunks=2), (0, 0, 1, 0), (1, 0, 1, 1), (0, 1, 2, 1), (1, 1, 2, 2)
        ),
        folder,
    )
    nodes = [read_trace(folder / f"collective.{rank}.et")[1] for rank in range(3)]
    assert [[(n.type, n.name, attributes(n)["comm_tag"]) for n in rank] for rank in nodes] == [
        [(SEND, "chunk 0", 0), (SEND, "chunk 1", 1)],
        [
            (RECEIVE, "chunk 0", 0),
            (RECEIVE, "chunk 1", 1),
            (SEND, "chunk 0", 2),
            (SEND, "chunk 1", 3),
        ],
        [(RECEIVE, "chunk 0", 2), (RECEIVE, "chunk 1", 3)],
    ]
    received = {n.name: n.id for n in nodes[1] if n.type == RECEIVE}
    assert [list(n.data_deps) for n in nodes[1] if n.type == SEND] == [
        [received["chunk 0"]],
        [received["chunk 1"]],
    ]
    assert attributes(nodes[0][1]) == {
        "comm_size": 1000, "comm_dst": 1, "comm_tag": 1, "pccl_chunk": 1, "pccl_reduce": False, "pccl_route": (0,),
    }  # fmt: skip
    assert not any(n.ctrl_deps for rank in nodes for n in rank)


def test_chained_sends(folder: Path) -> None:
    rows = [(0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 1, 2)]
    export(schedule(LINE, Broadcast("3kB", [0, 1], chunks=3), *rows), folder, chain=True)
    _, nodes = read_trace(folder / "collective.0.et")
    assert [list(node.ctrl_deps) for node in nodes] == [[], [nodes[0].id], [nodes[1].id]]


def test_what_stands_beside_the_traces(folder: Path) -> None:
    export(
        pccl.synthesize(pccl.topology.ring(4), AllGather("4MiB", [0, 2, 3, 1]), effort="fast"),
        folder,
    )
    assert json.loads((folder / "system.json").read_text()) == {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "all-gather-implementation-custom": ["collective"],
        "local-mem-bw": 50,
    }
    for rank in range(4):
        metadata, (node,) = read_trace(folder / f"workload.{rank}.et")
        assert metadata.version
        assert node.type == COLLECTIVE
        assert attributes(node) == {"is_cpu_op": False, "comm_type": 2, "comm_size": 4 * 2**20}
    assert json.loads((folder / "memory.json").read_text()) == {
        "memory-type": "NO_MEMORY_EXPANSION"
    }


@pytest.mark.parametrize(
    ("collective", "key", "number"),
    [
        (AllReduce("4kB"), "all-reduce", 0),
        (AllToAll("4kB"), "all-to-all", 6),
        (pccl.ReduceScatter("4kB"), "reduce-scatter", 7),
        (Broadcast("4kB"), "all-to-all", 6),
    ],
)
def test_the_name_under_which_a_collective_runs(
    tmp_path: Path, collective, key: str, number: int
) -> None:
    export(pccl.synthesize(pccl.topology.ring(4), collective, effort="fast"), tmp_path / "out")
    assert f"{key}-implementation-custom" in json.loads(
        (tmp_path / "out" / "system.json").read_text()
    )
    assert attributes(read_trace(tmp_path / "out" / "workload.0.et")[1][0])["comm_type"] == number


@pytest.mark.parametrize(
    ("topology", "network"),
    [
        (pccl.topology.ring(5), "Ring"),
        (pccl.topology.fully_connected(4), "FullyConnected"),
        (pccl.topology.switch(4), "Switch"),
    ],
)
def test_networks_that_astra_sim_has(tmp_path: Path, topology: Topology, network: str) -> None:
    export(pccl.synthesize(topology, Broadcast("4kB"), effort="fast"), tmp_path / "out")
    again = pccl.topology.load_topology(tmp_path / "out" / "network.yml")
    assert f"topology: [ {network} ]" in (tmp_path / "out" / "network.yml").read_text()
    for column in ("src", "dst", "latency", "bandwidth"):
        assert np.array_equal(getattr(again, column), getattr(topology, column))


def test_a_stand_in_for_networks_that_it_does_not_have(tmp_path: Path) -> None:
    mesh = pccl.topology.mesh(2, 3, bandwidth="25GiB/s", latency="700ns")
    algorithm = pccl.synthesize(mesh, AllToAll("6kB"), effort="fast")
    export(algorithm, tmp_path / "out", chain=True)
    stand_in = pccl.topology.load_topology(tmp_path / "out" / "network.yml")
    assert stand_in.num_links == 30
    for rank in range(6):  # what a simulator sees that does not know our routes
        path = tmp_path / "out" / f"collective.{rank}.et"
        _, nodes = read_trace(path)
        for node in nodes:
            kept = [one for one in node.attr if not one.name.startswith("pccl")]
            del node.attr[:]
            node.attr.extend(kept)
        write_trace(path, nodes)
    assert replay(tmp_path / "out", stand_in, sends_end="departure").finish == algorithm.duration


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        (Topology.from_links(2, [Link(0, 1, "1GB/s", "0ns"), Link(1, 0, "2GB/s", "0ns")]), "or different links"),
        (Topology.from_links(2, [Link(0, 1, "1GB/s", "0ns")] * 2), "no parallel"),
        (network(2, (0, 1), (1, 0), exclusive=True), "exclusive"),
        (pccl.topology.switch_2d(2, 2, bandwidth="1GB/s"), "one switch at most"),
    ],
)  # fmt: skip
def test_networks_without_a_file(tmp_path: Path, topology: Topology, text: str) -> None:
    facts = pccl.export(
        pccl.synthesize(topology, Broadcast("4kB"), effort="fast"), tmp_path / "out", "chakra"
    )
    assert facts["network"].startswith("none: ASTRA-sim's has ")
    assert text in facts["network"]
    assert not (tmp_path / "out" / "network.yml").exists()


def test_ranks_are_the_npus_that_are_there(tmp_path: Path) -> None:
    damaged = pccl.topology.ring(4).without(devices=[1])
    algorithm = pccl.synthesize(damaged, AllGather("3kB"), effort="fast")
    export(algorithm, tmp_path / "out", chain=True)
    assert sorted(path.name for path in (tmp_path / "out").glob("collective*")) == [
        f"collective.{i}.et" for i in range(3)
    ]
    result = replay(tmp_path / "out", damaged, sends_end="departure")
    assert result.finish == algorithm.duration
    assert result.to_algorithm() == algorithm


def test_a_rank_with_nothing_to_do_computes(tmp_path: Path) -> None:
    export(
        pccl.synthesize(pccl.topology.ring(4), Broadcast("1kB", [0, 1]), effort="fast"),
        tmp_path / "out",
    )
    _, (node,) = read_trace(tmp_path / "out" / "collective.3.et")
    assert (node.type, node.duration_micros) == (COMPUTE, 0)


# --- messages through switches ----------------------------------------------------------------------------------------


def test_what_a_switch_multiplies_is_sent_to_each() -> None:
    hub = star(3)
    messages = messages_of(
        schedule(hub, Broadcast("1kB"), (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 1))
    )
    assert messages.route.reshape(-1, 2).tolist() == [[0, 3], [0, 5]]
    assert not len(messages.inputs)


def test_what_a_switch_adds_up_is_sent_by_each() -> None:
    hub = star(3)
    rows = [
        (0, 1, 3, 0, "add"),
        (0, 2, 3, 0, "add"),
        (0, 3, 0, 1, "add"),
        (0, 0, 3, 2),
        (0, 3, 1, 3),
        (0, 3, 2, 3),
    ]
    algorithm = schedule(hub, AllReduce("3kB"), *rows)
    messages = messages_of(algorithm)
    names = [
        (int(hub.src[route[0]]), int(hub.dst[route[1]])) for route in messages.route.reshape(-1, 2)
    ]
    assert names == [(1, 0), (2, 0), (0, 1), (0, 2)]
    assert np.split(messages.inputs, messages.input_offsets[1:-1])[2].tolist() == [0, 1]


def test_a_sum_of_a_switch_for_many_is_made_by_one_of_them() -> None:
    hub = star(3)
    rows = [(1, npu, 3, 0, "add") for npu in range(3)] + [(1, 3, npu, 1) for npu in range(3)]
    messages = messages_of(schedule(hub, AllReduce("3kB"), *rows))
    names = [
        (int(hub.src[route[0]]), int(hub.dst[route[1]])) for route in messages.route.reshape(-1, 2)
    ]
    assert names == [(0, 1), (2, 1), (1, 0), (1, 2)]  # chunk 1: its turn
    inputs = [sorted(part) for part in np.split(messages.inputs, messages.input_offsets[1:-1])]
    assert inputs == [[], [], [0, 1], [0, 1]]


@pytest.mark.parametrize("machine", ["switch:8", "h100", "leaf-spine:2x4x2"])
def test_sums_that_switches_make_by_default(folder: Path, machine: str) -> None:
    """Nobody sends to itself, which nobody could read, and no more than reduce-scatter and all-gather would."""
    algorithm = pccl.synthesize(pccl.topology.parse_topology(machine), AllReduce("8MiB", chunks=2))
    replay(export(algorithm, folder), algorithm.topology)
    assert len(messages_of(algorithm)) == 2 * 7 * 16


def test_a_send_waits_for_all_that_was_there() -> None:
    """Also for what a copy has replaced, as in our simulator."""
    rows = [(2, 0, 1, 0, "add"), (2, 1, 2, 1, "add"), (2, 2, 1, 2), (2, 1, 0, 3)]
    messages = messages_of(schedule(LINE, AllReduce("3kB"), *rows))
    assert [sorted(part) for part in np.split(messages.inputs, messages.input_offsets[1:-1])] == [
        [],
        [0],
        [1],
        [0, 2],
    ]


def test_ways_of_different_length() -> None:
    """Over one switch, over two, and over none."""
    links = [(0, 3), (3, 4), (3, 1), (4, 2), (1, 2)]
    topology = network(3, *links, switches=[Switch("near"), Switch("far")])
    rows = [(0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 4, 1), (0, 4, 2, 2), (1, 1, 2, 0)]
    algorithm = schedule(topology, [Broadcast("1kB"), Broadcast("1kB", [1, 2])], *rows)
    messages = messages_of(algorithm)
    routes = np.split(messages.route, messages.route_offsets[1:-1])
    assert [route.tolist() for route in routes] == [[0, 2], [0, 1, 3], [4]]


def test_a_switch_that_sends_what_it_has_not(tmp_path: Path) -> None:
    with pytest.raises(PcclError, match=r"switch 3 \(hub\) is not planned to have chunk 0 at 0ps"):
        export(schedule(star(3), Broadcast("1kB"), (0, 3, 1, 0)), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@settings(slow_but_fine, max_examples=25)
@given(problems(limits=False))
def test_messages_deliver_what_was_promised(folder: Path, problem) -> None:
    """Also through switches; of sums only the time can be told, as they are added up elsewhere."""
    algorithm = synthesized(problem)
    result = replay(export(algorithm, folder), algorithm.topology)
    if not algorithm.conditions.reduces.any():
        pccl.verify(result.to_algorithm())


# --- replay -----------------------------------------------------------------------------------------------------------


@settings(slow_but_fine, max_examples=60)
@given(problems(limits=False).map(direct))
def test_chained_sends_are_on_time(folder: Path, problem) -> None:
    """Without switches, a chained trace is what our simulator makes of the algorithm, transfer by transfer."""
    algorithm = synthesized(problem)
    result = replay(
        export(algorithm, folder, chain=True), algorithm.topology, sends_end="departure"
    )
    simulation = pccl.simulate(algorithm)
    assert result.hop_arrival.max(initial=0) == simulation.finish
    assert result.to_algorithm() == simulation.to_algorithm()


@settings(slow_but_fine, max_examples=30)
@given(problems(limits=False).map(direct))
def test_without_latency_a_chain_costs_nothing(folder: Path, problem) -> None:
    topology, collectives = problem
    links = zip(
        topology.src.tolist(), topology.dst.tolist(), topology.bandwidth.tolist(), strict=True
    )
    instant = [Link(a, b, pccl.units.BytesPerSecond(rate), "0ns") for a, b, rate in links]
    algorithm = synthesized((Topology.from_links(topology.num_npus, instant), collectives))
    result = replay(export(algorithm, folder, chain=True), algorithm.topology)
    assert result.hop_arrival.max(initial=0) == pccl.simulate(algorithm).finish


def test_what_a_chain_costs(folder: Path) -> None:
    """Three sends that wait for arrival pay three latencies; those that wait for departure pay one."""
    pair = network(2, (0, 1), latency="5us")
    algorithm = schedule(pair, Broadcast("3kB", chunks=3), (0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 1, 2))
    export(algorithm, folder, chain=True)
    assert replay(folder, pair, sends_end="departure").finish == algorithm.duration == 8 * US
    assert replay(folder, pair).finish == 18 * US
    export(algorithm, folder)
    assert replay(folder, pair).finish == 8 * US


def test_the_order_is_kept_only_by_a_chain(folder: Path) -> None:
    """NPU 1 is meant to hold back its own chunk for the one that passes through."""
    rows = [(0, 0, 1, 0), (0, 1, 2, 1), (1, 1, 2, 2)]
    algorithm = schedule(LINE, [Broadcast("1kB", [0, 2]), Broadcast("1kB", [1, 2])], *rows)
    chained = replay(export(algorithm, folder, chain=True), LINE)
    assert sorted(zip(chained.hop_link.tolist(), chained.hop_start.tolist(), strict=True)) == [
        (0, 0),
        (1, US),
        (1, 2 * US),
    ]
    free = replay(export(algorithm, folder), LINE)
    assert sorted(zip(free.hop_link.tolist(), free.hop_start.tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (1, US),
    ]


def test_several_links_are_taken_one_after_another(folder: Path) -> None:
    hub = star(3)
    export(schedule(hub, Broadcast("1kB"), (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 1)), folder)
    result = replay(folder, hub)
    assert result.hop_start.tolist() == [0, US, US, 2 * US]
    assert result.finish == 3 * US  # the switch would have multiplied it: 2 us


def send(number: int, dst: int, tag: int, size: int, *after: int) -> Any:
    node = Node(id=number, name=f"s{number}", type=SEND, data_deps=after)
    for name, value in (("comm_dst", dst), ("comm_tag", tag), ("comm_size", size)):
        node.attr.add(name=name, uint64_val=value)
    return node


def receive(number: int, src: int, tag: int, size: int, *after: int) -> Any:
    node = Node(id=number, name=f"r{number}", type=RECEIVE, ctrl_deps=after)
    node.attr.add(name="comm_src", sint32_val=src)
    node.attr.add(name="comm_tag", fixed32_val=tag)
    node.attr.add(name="comm_size", sfixed64_val=size)
    return node


def compute(number: int, micros: int, *after: int) -> Any:
    return Node(id=number, name=f"c{number}", type=COMPUTE, duration_micros=micros, data_deps=after)


def written(folder: Path, *ranks: list[Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.et"):
        old.unlink()
    for rank, nodes in enumerate(ranks):
        write_trace(folder / f"collective.{rank}.et", nodes)
    return folder


def test_traces_of_others(tmp_path: Path) -> None:
    """Numbers of other types, nodes of the same number in different ranks, work between messages, routes not given."""
    folder = written(
        tmp_path / "other",
        [send(0, 2, 7, 1000), compute(1, 0)],
        [receive(0, 2, 7, 3000)],
        [receive(5, 0, 7, 1000), compute(1, 4, 5), send(2, 1, 7, 3000, 1)],
    )
    result = replay(folder, LINE)
    assert result.hop_link.tolist() == [0, 1, 3]  # 0 -> 1 -> 2, later 2 -> 1
    assert result.hop_start.tolist() == [0, US, 6 * US]
    assert result.finish == 9 * US
    assert read(folder).about == {}
    with pytest.raises(FormatError, match="does not say which chunks its messages are"):
        result.to_algorithm()


def test_a_reception_may_wait(tmp_path: Path) -> None:
    """And then ends when it begins, as the message is there already."""
    folder = written(
        tmp_path / "late",
        [send(1, 1, 0, 1000)],
        [compute(1, 5), receive(2, 0, 0, 1000, 1), compute(3, 1, 2)],
    )
    assert replay(folder, network(2, (0, 1))).finish == 6 * US


def test_a_computation_of_no_time_takes_a_nanosecond(tmp_path: Path) -> None:
    assert (
        replay(written(tmp_path / "one", [compute(1, 0), compute(2, 0, 1)]), network(1)).finish
        == 2000
    )


def test_the_fastest_way_is_taken(tmp_path: Path) -> None:
    links = [
        Link(0, 1, "1GB/s", "9us"),
        Link(0, 1, "1GB/s", "2us"),
        Link(0, 2, "9GB/s", "0us"),
        Link(2, 1, "9GB/s", "0us"),
    ]
    topology = Topology.from_links(3, links)
    folder = written(
        tmp_path / "way", [send(1, 1, 0, 9000)], [receive(1, 0, 0, 9000)], [compute(1, 0)]
    )
    assert replay(folder, topology).hop_link.tolist() == [2, 3]
    assert replay(folder, topology.without(links=[3])).hop_link.tolist() == [1]
    with pytest.raises(InfeasibleError, match="NPU 1 cannot be reached from NPU 0"):
        replay(folder, topology.without(links=[(0, 1), (2, 1)]))


def test_another_network_than_the_one_it_was_made_for(folder: Path) -> None:
    export(pccl.synthesize(pccl.topology.ring(4), AllGather("4kB"), effort="fast"), folder)
    with pytest.raises(TopologyError, match=r"the trace has 4 ranks, ring:5 has 5 NPUs"):
        replay(folder, pccl.topology.ring(5))
    with pytest.raises(
        TopologyError,
        match=r"takes link 1, which does not lead from its sender to its receiver in ring:4,unid",
    ):
        replay(folder, pccl.topology.ring(4, unidirectional=True))
    with pytest.raises(
        TopologyError,
        match=r"rank .: node .* takes link .* in mesh:2x2; the trace was made for another network",
    ):
        replay(folder, pccl.topology.mesh(2, 2))
    with pytest.raises(
        PcclError, match="sends end with their arrival or departure, not with 'luck'"
    ):
        replay(folder, pccl.topology.ring(4), sends_end="luck")


def test_sums_through_switches_are_no_algorithm(folder: Path) -> None:
    hub = pccl.topology.switch(3)
    result = replay(export(pccl.synthesize(hub, AllReduce("3kB"), effort="fast"), folder), hub)
    with pytest.raises(FormatError, match="a trace sends what a switch adds up one by one"):
        result.to_algorithm()


# --- what is refused --------------------------------------------------------------------------------------------------


def change(rank: int, number: int, do: Callable[[Any], object]) -> Callable[[Path], None]:
    """Change one node of one rank."""

    def apply(folder: Path) -> None:
        metadata, nodes = read_trace(folder / f"collective.{rank}.et")
        do(nodes[number])
        write_trace(folder / f"collective.{rank}.et", nodes, metadata)

    return apply


def attribute(name: str, value: int | None) -> Callable[[Any], None]:
    def apply(node: Any) -> None:
        kept = [one for one in node.attr if one.name != name]
        del node.attr[:]
        node.attr.extend(kept)
        if value is not None:
            node.attr.add(name=name, int64_val=value)

    return apply


def drop(rank: int, number: int) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        metadata, nodes = read_trace(folder / f"collective.{rank}.et")
        del nodes[number]
        write_trace(folder / f"collective.{rank}.et", nodes, metadata)

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "collective.1.et").unlink(), "there is a collective.2.et but no collective.1.et"),
        (drop(1, 0), r"collective\.1\.et: rank 1: node 5 \('chunk 0', sends\) waits for node 2, which is not there"),
        (drop(2, 0), r"rank 1: node 5 \('chunk 0', sends\) sends to rank 2 1000 bytes with tag 2, which that rank "
                     r"does not receive$"),
        (drop(0, 1), r"rank 1: node 4 \('chunk 1', receives\) receives from rank 0 1000 bytes with tag 1, which "
                     r"that rank does not send"),
        (change(0, 0, attribute("comm_tag", 9)),
         r"node 2 .* receives from rank 0 1000 bytes with tag 0, which that rank does not send; its node 1 sends to "
         r"rank 1 1000 bytes with tag 9$"),
        (change(0, 0, attribute("comm_size", 9)),
         r"node 1 .* sends to rank 1 9 bytes with tag 0, which that rank does not receive; its node 2 receives from "
         r"rank 0 1000 bytes with tag 0$"),
        (change(0, 0, attribute("comm_tag", 1)), "node 3 .* sends to rank 1 1000 bytes with tag 1, and so does node 1"),
        (change(1, 0, attribute("comm_tag", 1)), "node 4 .* 1000 bytes with tag 1, and so does node 2"),
        (change(0, 0, attribute("comm_dst", None)), "node 1 .*sends.* has no whole number 'comm_dst'"),
        (change(0, 0, attribute("comm_dst", 0)), "names rank 0, but there is no other rank of that number"),
        (change(0, 0, attribute("comm_dst", 3)), "names rank 3, but there is no other rank of that number"),
        (change(0, 0, attribute("comm_dst", -1)), "names rank -1, but there is no other rank"),
        (change(0, 0, attribute("comm_size", 0)), "node 1 .*sends.* has comm_size 0"),
        (change(0, 0, attribute("comm_src", 2)), "has comm_src 2, but is in the file of another rank"),
        (change(1, 1, attribute("comm_tag", None)), "node 4 .*receives.* has no whole number 'comm_tag'"),
        (change(0, 0, lambda node: setattr(node, "type", COLLECTIVE)),
         r"node 1 \('chunk 0', of type 7\) cannot be part of a collective"),
        (change(0, 0, lambda node: setattr(node, "id", 3)), "rank 0: node 3 .* has the number of another node"),
        (change(1, 2, lambda node: node.data_deps.append(77)), "node 5 .* waits for node 77, which is not there"),
        (change(0, 0, lambda node: node.ctrl_deps.append(1)),
         r"never ends: rank 0: node 1 \('chunk 0', sends\) waits for rank 0: node 1 \('chunk 0', sends\)$"),
        (change(0, 0, lambda node: node.ctrl_deps.append(3)), "the trace never ends: .*node 1 .* waits for .*node 3 "),
        (lambda folder: write_trace(folder / "collective.2.et", []), "there is no node in it"),
        (lambda folder: (folder / "collective.2.et").write_bytes(b""), r"collective\.2\.et: the file is empty"),
        (lambda folder: (folder / "collective.2.et").write_bytes(b"\xff" * 40), "the file ends within a message"),
        (lambda folder: (folder / "collective.2.et").write_bytes(b"hello world" * 20), r"collective\.2\.et: "),
    ],
)  # fmt: skip
def test_traces_that_are_refused(
    tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    rows = [(0, 0, 1, 0), (1, 0, 1, 1), (0, 1, 2, 1), (1, 1, 2, 2)]
    folder = export(
        schedule(LINE, Broadcast("2kB", chunks=2), *rows), tmp_path / "trace", chain=True
    )
    replay(folder, LINE)
    damage(folder)
    with pytest.raises(FormatError, match=message):
        replay(folder, LINE)


def test_ranks_that_wait_for_one_another(tmp_path: Path) -> None:
    """A cycle through two ranks, which no file shows by itself."""
    folder = written(
        tmp_path / "cycle",
        [receive(1, 1, 0, 10), send(2, 1, 0, 10, 1), compute(3, 0, 2)],
        [receive(1, 0, 0, 10), send(2, 0, 0, 10, 1)],
    )
    around = [
        f"rank {rank}: node {node}" for rank, node in ((0, 2), (0, 1), (1, 2), (1, 1), (0, 2))
    ]
    with pytest.raises(FormatError, match="the trace never ends: " + " .* waits for ".join(around)):
        replay(folder, network(2, (0, 1), (1, 0)))


def test_no_trace_at_all(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FormatError, match=r"there is no collective\.0\.et"):
            read(path)


def test_cut_off_anywhere(tmp_path: Path) -> None:
    folder = export(
        pccl.synthesize(pccl.topology.ring(3), AllGather("3kB"), effort="fast"), tmp_path / "trace"
    )
    path = folder / "collective.0.et"
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError, match=r"trace"):
            read(folder)


def test_changed_anywhere(tmp_path: Path) -> None:
    """Nothing but a clear error, or a trace that makes sense."""
    ring = pccl.topology.ring(3)
    folder = export(
        pccl.synthesize(ring, AllGather("3kB"), effort="fast"), tmp_path / "trace", chain=True
    )
    path = folder / "collective.0.et"
    content = path.read_bytes()
    for position in range(0, len(content), 3):
        for flip in (1, 0x80):
            damaged = bytearray(content)
            damaged[position] ^= flip
            path.write_bytes(damaged)
            with contextlib.suppress(PcclError):
                assert isinstance(replay(folder, ring).to_algorithm(), Algorithm)


# --- the folder and the program ---------------------------------------------------------------------------------------


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export(pccl.synthesize(pccl.topology.ring(5), AllGather("5kB"), effort="fast"), folder)
    (folder / "notes.txt").write_text("mine")
    export(pccl.synthesize(pccl.topology.switch_2d(2, 2), AllGather("4kB"), effort="fast"), folder)
    names = {f"{kind}.{rank}.et" for kind in ("collective", "workload") for rank in range(4)}
    assert {path.name for path in folder.iterdir()} == names | {
        "system.json",
        "memory.json",
        "notes.txt",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_into_the_folder_where_one_is(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    export(pccl.synthesize(pccl.topology.ring(3), AllGather("3kB"), effort="fast"), Path())
    assert len(read(".").sends) == 6


def test_folders_that_cannot_be_written(tmp_path: Path) -> None:
    algorithm = pccl.synthesize(pccl.topology.ring(3), AllGather("3kB"), effort="fast")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FormatError, match="file: it is a file, and this format is a folder"):
        export(algorithm, tmp_path / "file")
    with pytest.raises(FormatError, match=r"cannot write .*out: No such file or directory"):
        export(algorithm, tmp_path / "nowhere" / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_program(tmp_path: Path) -> None:
    saved = tmp_path / "ring.pccl"
    assert (
        program(
            "synthesize",
            "-t",
            "ring:4",
            "-c",
            "all-gather",
            "-s",
            "4MiB",
            "--chunks",
            "1",
            "-o",
            saved,
        ).exit_code
        == 0
    )
    result = program("export", saved, "--format", "chakra", "-o", tmp_path / "out", "--chain")
    assert result.exit_code == 0, result.output
    assert "12, in the planned order on every link" in result.stdout
    assert "network.yml, the same network" in result.stdout
    assert len(read(tmp_path / "out").sends) == 12
