"""Chakra traces: Google's protocol buffers read them, and a replay of them is the plan."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, assume, given, settings

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
    Topology,
)
from pccl.formats.lowering import follow
from tests.algorithm.examples import LINE, US, network, schedule, star
from tests.end_to_end.program import pccl as program
from tests.formats.chakra_replay import read, replay
from tests.formats.chakra_schema import attributes, read_trace
from tests.strategies import problems, synthesized

slow_but_fine = settings(deadline=None, suppress_health_check=list(HealthCheck))
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("chakra") / "trace"


def export(algorithm: Algorithm, folder: Path, **options: Any) -> Path:
    # However long it takes: these tests are about what is written.
    pccl.export(algorithm, folder, "chakra", lowered=True, **options)
    return folder


def direct(problem: tuple[Topology, Any]) -> tuple[Topology, Any]:
    """The same without switches, which messages do not see."""
    topology, collectives = problem
    return topology.unroll_switches(), collectives


# --- what is written --------------------------------------------------------------------------------------------------


@settings(slow_but_fine, max_examples=25)
@given(problems(limits=False))
def test_protocol_buffers_read_what_was_delivered(folder: Path, problem) -> None:
    algorithm = synthesized(problem)
    trace = read(export(algorithm, folder))
    assert not any(len(UnknownFieldSet(node)) for node in trace.nodes.values())
    sent = follow(algorithm)
    rank_of = {int(npu): rank for rank, npu in enumerate(algorithm.topology.npus)}
    assert len(trace) == len(sent)
    for (rank, number), (peer, _) in trace.ends.items():
        values = trace.values[rank, number]
        row = values["comm_tag"]
        assert (rank, peer) == (rank_of[sent.src[row]], rank_of[sent.dst[row]])
        size = values.get("pccl_bytes", values["comm_size"])
        assert size == algorithm.conditions.bytes[sent.chunk[row]]
        assert (values["pccl_chunk"], values["pccl_reduce"]) == (sent.chunk[row], sent.reduce[row])
        assert trace.nodes[rank, number].name == f"chunk {sent.chunk[row]}"
        links = sent.links[sent.link_offsets[row] : sent.link_offsets[row + 1]]
        assert values["pccl_route"] == tuple(links.tolist())


def test_a_schedule_written_by_hand(folder: Path) -> None:
    """Chunk 0 from NPU 0 by way of 1 to 2, chunk 1 behind it."""
    export(
        schedule(
            LINE, Broadcast("2kB", chunks=2), (0, 0, 1, 0), (1, 0, 1, 1), (0, 1, 2, 1), (1, 1, 2, 2)
        ),
        folder,
        chain=False,
    )
    nodes = [read_trace(folder / f"collective.{rank}.et")[1] for rank in range(3)]
    assert [[(n.type, n.name, attributes(n)["comm_tag"]) for n in rank] for rank in nodes] == [
        [(SEND, "chunk 0", 0), (SEND, "chunk 1", 2)],
        [
            (RECEIVE, "chunk 0", 0),
            (RECEIVE, "chunk 1", 2),
            (SEND, "chunk 0", 1),
            (SEND, "chunk 1", 3),
        ],
        [(RECEIVE, "chunk 0", 1), (RECEIVE, "chunk 1", 3)],
    ]
    received = {n.name: n.id for n in nodes[1] if n.type == RECEIVE}
    assert [list(n.data_deps) for n in nodes[1] if n.type == SEND] == [
        [received["chunk 0"]],
        [received["chunk 1"]],
    ]
    assert attributes(nodes[0][1]) == {
        "comm_size": 1000, "comm_dst": 1, "comm_tag": 2, "pccl_chunk": 1, "pccl_reduce": False, "pccl_route": (0,),
    }  # fmt: skip
    assert not any(n.ctrl_deps for rank in nodes for n in rank)


def test_a_send_waits_for_the_gate_of_the_one_before_it(folder: Path) -> None:
    """The gate is a computation that waits for the same as that send, which itself ends too late: when it arrives."""
    rows = [(0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 1, 2), (0, 1, 2, 1), (1, 1, 2, 2), (2, 1, 2, 3)]
    export(schedule(LINE, Broadcast("3kB", chunks=3), *rows), folder)
    for rank in (0, 1):
        _, nodes = read_trace(folder / f"collective.{rank}.et")
        gates = [node for node in nodes if node.type == COMPUTE]
        sends = [node for node in nodes if node.type == SEND]
        assert [gate.name for gate in gates] == ["chunk 0", "chunk 1"]
        assert [list(node.ctrl_deps) for node in sends] == [[], [gates[0].id], [gates[1].id]]
        for gate, send in zip(gates, sends, strict=False):
            assert gate.duration_micros == 0
            assert (gate.ctrl_deps, gate.data_deps) == (send.ctrl_deps, send.data_deps)
        assert all(len(node.data_deps) == rank for node in sends)


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
        assert attributes(node) == {"is_cpu_op": False, "comm_type": 2, "comm_size": 2**20}
    assert json.loads((folder / "memory.json").read_text()) == {
        "memory-type": "NO_MEMORY_EXPANSION"
    }


def run_script(folder: Path, *words: str, **names: str) -> str:
    """What the script would start."""
    return subprocess.run(
        [folder / "run.sh", *words],
        env={"PATH": os.environ["PATH"], "ASTRA_SIM": "echo"} | names,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_a_script_runs_it_and_what_astra_sim_itself_does(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    facts = pccl.export(
        pccl.synthesize(pccl.topology.ring(4), AllGather("4MiB"), effort="fast"), folder, "chakra"
    )
    assert facts["run"] == "run.sh, and with the word native what ASTRA-sim itself does"
    assert json.loads((folder / "native.json").read_text()) == {
        "scheduling-policy": "FIFO",
        "preferred-dataset-splits": 1,
        "all-gather-implementation": ["ring"],
        "local-mem-bw": 50,
    }
    started = run_script(folder)
    assert started == (
        "--workload-configuration=workload --system-configuration=system.json "
        "--network-configuration=network.yml --remote-memory-configuration=memory.json\n"
    )
    assert run_script(folder, "native") == started.replace("system.json", "native.json")


@pytest.mark.parametrize(
    ("topology", "collective"),
    [
        (pccl.topology.ring(4), AllGather("4kB", [0, 1])),
        (pccl.topology.ring(4), Broadcast("4kB")),
        (pccl.topology.mesh(2, 3), AllGather("6kB")),
    ],
)
def test_nothing_native_to_compare_with(tmp_path: Path, topology: Topology, collective) -> None:
    """Groups, other collectives and stand-ins: ASTRA-sim itself would do something else."""
    out = tmp_path / "out"
    export(pccl.synthesize(pccl.topology.ring(4), AllGather("4MiB"), effort="fast"), out)
    export(pccl.synthesize(topology, collective, effort="fast"), out)
    assert not (out / "native.json").exists()
    assert "system.json" in run_script(out, "native")


def test_the_script_asks_for_a_network(tmp_path: Path) -> None:
    two = pccl.topology.switch_2d(2, 2, bandwidth="1GB/s")
    export(pccl.synthesize(two, Broadcast("4kB"), effort="fast"), tmp_path / "out")
    assert "--network-configuration=own.yml" in run_script(tmp_path / "out", NETWORK="own.yml")
    with pytest.raises(subprocess.CalledProcessError):
        run_script(tmp_path / "out")


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
        (pccl.topology.ring(2), "FullyConnected"),
        (pccl.topology.fully_connected(4), "FullyConnected"),
        (pccl.topology.switch(4), "Switch"),
    ],
)
def test_networks_that_astra_sim_has(tmp_path: Path, topology: Topology, network: str) -> None:
    export(pccl.synthesize(topology, Broadcast("4kB"), effort="fast"), tmp_path / "out")
    again = pccl.topology.load(tmp_path / "out" / "network.yml")
    assert f"topology: [ {network} ]" in (tmp_path / "out" / "network.yml").read_text()
    for column in ("src", "dst", "latency", "bandwidth"):
        assert np.array_equal(getattr(again, column), getattr(topology, column))


def test_a_stand_in_for_networks_that_it_does_not_have(tmp_path: Path) -> None:
    mesh = pccl.topology.mesh(2, 3, bandwidth="25GiB/s", latency="700ns")
    algorithm = pccl.synthesize(mesh, AllToAll("6kB"), effort="fast")
    export(algorithm, tmp_path / "out")
    stand_in = pccl.topology.load(tmp_path / "out" / "network.yml")
    assert stand_in.num_links == 30
    result = replay(tmp_path / "out", stand_in, planned_links=False)
    assert result.finish == algorithm.duration


def test_larger_messages_where_links_are_slower(tmp_path: Path) -> None:
    """A stand-in has links that are all alike; DGX-1 has some that are twice as fast as others."""
    dgx1 = pccl.topology.parse_topology("dgx1")
    algorithm = pccl.synthesize(dgx1, AllGather("8MiB"), effort="fast")
    export(algorithm, tmp_path / "out")
    stand_in = pccl.topology.load(tmp_path / "out" / "network.yml")
    assert np.all(stand_in.bandwidth == dgx1.bandwidth.max())
    result = replay(tmp_path / "out", stand_in, planned_links=False)
    assert result.finish == pytest.approx(algorithm.duration, rel=1e-6)


@pytest.mark.parametrize(
    ("topology", "text"),
    [
        (Topology.from_links(2, [Link(0, 1, "1GB/s", "0ns"), Link(1, 0, "1GB/s", "1ns")]), "one latency"),
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
    export(algorithm, tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("collective*")) == [
        f"collective.{i}.et" for i in range(3)
    ]
    result = replay(tmp_path / "out", damaged)
    assert result.finish == algorithm.duration
    assert result.to_algorithm() == algorithm


def test_a_rank_with_nothing_to_do_computes(tmp_path: Path) -> None:
    export(
        pccl.synthesize(pccl.topology.ring(4), Broadcast("1kB", [0, 1]), effort="fast"),
        tmp_path / "out",
    )
    _, (node,) = read_trace(tmp_path / "out" / "collective.3.et")
    assert (node.type, node.duration_micros) == (COMPUTE, 0)


# --- replay -----------------------------------------------------------------------------------------------------------


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


def exchanges(algorithm: pccl.Algorithm) -> bool:
    """Whether some NPU adds to a partial sum after it has sent it."""
    t = algorithm.transfers
    rows = np.flatnonzero(t.reduce)
    same_chunk = t.chunk[rows][:, None] == t.chunk[rows]
    same_place = t.src[rows][:, None] == t.dst[rows]
    return bool(np.any(same_chunk & same_place & (t.start[rows][:, None] < t.arrival[rows])))


def passes_on_whole_sums(algorithm: pccl.Algorithm) -> bool:
    """Whether some NPU passes on all of a sum for others to add to: it has it already, whatever comes back to it."""
    t = algorithm.transfers
    conditions = algorithm.conditions
    offsets = conditions.source_offsets
    parts = [{*conditions.source_ids[low:high]} for low, high in pairwise(offsets)]
    held = {(chunk, npu): {npu} for chunk, npus in enumerate(parts) for npu in npus}
    for i in np.flatnonzero(t.reduce)[np.argsort(t.start[t.reduce], kind="stable")]:
        chunk = t.chunk[i]
        sent = held[chunk, t.src[i]]
        if sent == parts[chunk]:
            return True
        held[chunk, t.dst[i]] = held.get((chunk, t.dst[i]), set()) | sent
    return False


@settings(slow_but_fine, max_examples=60)
@given(problems(limits=False).map(direct))
def test_sends_are_on_time(folder: Path, problem) -> None:
    """Without switches, a trace is what our simulator makes of the algorithm, transfer by transfer."""
    algorithm = synthesized(problem)
    # Traces leave out what its receiver has already.
    assume(not passes_on_whole_sums(algorithm))
    # Traces know no buffers, in which an exchanged sum waits until the one before it has been sent.
    assume(not exchanges(algorithm))
    result = replay(export(algorithm, folder), algorithm.topology)
    simulation = pccl.simulate(algorithm)
    assert result.finish == simulation.finish
    # Adding to nothing is a copy, so that the trace may say one where the algorithm says the other.
    replayed = result.to_algorithm().transfers
    simulated = simulation.to_algorithm().transfers
    for column in ("chunk", "link", "start"):
        assert np.array_equal(getattr(replayed, column), getattr(simulated, column))


def test_the_planned_order_costs_no_time(folder: Path) -> None:
    pair = network(2, (0, 1), latency="5us")
    algorithm = schedule(pair, Broadcast("3kB", chunks=3), (0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 1, 2))
    assert replay(export(algorithm, folder), pair).finish == algorithm.duration == 8 * US


def test_the_order_is_kept_only_by_a_chain(folder: Path) -> None:
    """NPU 1 is meant to hold back its own chunk for the one that passes through."""
    rows = [(0, 0, 1, 0), (0, 1, 2, 1), (1, 1, 2, 2)]
    algorithm = schedule(LINE, [Broadcast("1kB", [0, 2]), Broadcast("1kB", [1, 2])], *rows)
    chained = replay(export(algorithm, folder), LINE)
    assert sorted((link, start) for _, link, start, *_ in chained.hops) == [
        (0, 0),
        (1, US),
        (1, 2 * US),
    ]
    free = replay(export(algorithm, folder, chain=False), LINE)
    assert sorted((link, start) for _, link, start, *_ in free.hops) == [(0, 0), (1, 0), (1, US)]


def test_several_links_are_taken_one_after_another(folder: Path) -> None:
    hub = star(3, multicast=True)
    export(schedule(hub, Broadcast("1kB"), (0, 0, 3, 0), (0, 3, 1, 1), (0, 3, 2, 1)), folder)
    result = replay(folder, hub)
    assert sorted(start for _, _, start, *_ in result.hops) == [0, US, US, 2 * US]
    assert result.finish == 3 * US  # the switch would have multiplied it: 2 us


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
        "run.sh",
        "notes.txt",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_into_the_folder_where_one_is(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    export(pccl.synthesize(pccl.topology.ring(3), AllGather("3kB"), effort="fast"), Path())
    assert len(read(Path())) == 6


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
    result = program("export", saved, "--format", "chakra", "-o", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "12, in the planned order on every link" in result.stdout
    assert "network.yml, the same network" in result.stdout
    assert len(read(tmp_path / "out")) == 12
