"""Traces for people: read with Perfetto's own definitions, they show the schedule and nothing else."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

import pccl
from pccl import Algorithm, AllGather, AllReduce, Broadcast, PcclError
from pccl.formats import wire
from pccl.formats.perfetto import writer as perfetto
from tests.algorithm.examples import LINE, US, schedule
from tests.end_to_end.program import pccl as program
from tests.strategies import problems, synthesized

slow_but_fine = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def algorithm() -> Algorithm:
    """With switches, sums and latencies."""
    return pccl.synthesize(
        pccl.topology.switch_2d(2, 2), AllReduce("4KiB"), Broadcast("1MiB", [3, 0]), effort="fast"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


class Slice(NamedTuple):
    process: str
    track: str
    begin: float
    end: float
    name: str
    arguments: tuple[tuple[str, Any], ...]


class Shown(NamedTuple):
    """What a viewer would show."""

    slices: list[Slice]
    arrows: set[tuple[Slice, Slice]]
    counters: dict[tuple[str, str], list[tuple[float, float]]]


def read_perfetto(path: Path) -> Shown:
    """Play the part of the viewer, and insist on what it relies on."""
    trace = Trace.FromString(path.read_bytes())
    assert_all_is_known(trace)
    assert trace.packet[0].sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    assert {packet.trusted_packet_sequence_id for packet in trace.packet} == {1}
    interned = trace.packet[0].interned_data
    names = {one.iid: one.name for one in interned.debug_annotation_names}
    texts = {one.iid: one.str.decode() for one in interned.debug_annotation_string_values}
    tracks = {
        p.track_descriptor.uuid: p.track_descriptor
        for p in trace.packet
        if p.HasField("track_descriptor")
    }
    assert len(tracks) == sum(packet.HasField("track_descriptor") for packet in trace.packet)
    opened: dict[int, Any] = {}
    slices, counters, flows = [], defaultdict(list), defaultdict(list)
    last = 0
    for packet in (packet for packet in trace.packet if packet.HasField("track_event")):
        event, time = packet.track_event, packet.timestamp
        assert packet.sequence_flags == TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        track = tracks[event.track_uuid]
        process = tracks[track.parent_uuid].process.process_name if track.parent_uuid else ""
        if event.type == TrackEvent.TYPE_COUNTER:
            assert track.counter.unit_name == "%"
            counters[process, track.name].append((time, event.double_counter_value))
            continue
        assert time >= last
        last = time
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in opened  # nothing overlaps
            opened[event.track_uuid] = packet
            continue
        assert event.type == TrackEvent.TYPE_SLICE_END
        begun = opened.pop(event.track_uuid)
        arguments = tuple(
            (
                names[one.name_iid],
                texts[one.string_value_iid] if one.string_value_iid else _value(one),
            )
            for one in begun.track_event.debug_annotations
        )
        slices.append(
            Slice(process, track.name, begun.timestamp, time, begun.track_event.name, arguments)
        )
        for flow in begun.track_event.flow_ids:
            flows[flow].insert(0, slices[-1])
        for flow in begun.track_event.terminating_flow_ids:
            flows[flow].append(slices[-1])
    assert not opened
    assert all(len(ends) == 2 for ends in flows.values())
    return Shown(slices, {(a, b) for a, b in flows.values()}, dict(counters))


def assert_all_is_known(message: Any) -> None:
    """No field is one that the definitions do not have; those of the wrong type count as such."""
    assert not len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                assert_all_is_known(one)


def _value(annotation: Any) -> Any:
    return getattr(annotation, annotation.WhichOneof("value"))


def expected(algorithm: Algorithm, unit: int = 1000) -> list[Slice]:
    """The slices, one transfer at a time."""
    t, topology, conditions = algorithm.transfers, algorithm.topology, algorithm.conditions
    slices = []
    for i in range(len(t)):
        link, chunk = int(t.link[i]), int(t.chunk[i])
        held = int(t.transmission[i] + (topology.latency[link] if topology.exclusive[link] else 0))
        collective = int(conditions.collective[chunk])
        arguments = {
            "bytes": int(t.bytes[i]), "piece": int(conditions.piece[chunk]), "arrival_ps": int(t.arrival[i]),
            "reduce": bool(t.reduce[i]), "collective": f"{collective} {algorithm.collectives[collective].kind}",
        }  # fmt: skip
        src, dst = (topology.labels[end[link]] for end in (topology.src, topology.dst))
        begin, end = int(t.start[i]) // unit, int(t.start[i] + held) // unit
        slices.append(
            Slice(
                src, f"link {link} to {dst}", begin, end, f"chunk {chunk}", tuple(arguments.items())
            )
        )
    return slices


@settings(slow_but_fine, max_examples=30)
@given(problems(), st.sampled_from(["ns", "ps"]))
def test_every_transfer_is_shown(folder: Path, problem, unit: str) -> None:
    algorithm = synthesized(problem)
    perfetto._BLOCK, block = 7, perfetto._BLOCK
    try:
        pccl.export(algorithm, folder / "one.pftrace", unit=unit)
    finally:
        perfetto._BLOCK = block
    shown = read_perfetto(folder / "one.pftrace")
    assert sorted(shown.slices) == sorted(expected(algorithm, {"ns": 1000, "ps": 1}[unit]))
    check_arrows(algorithm, shown, {"ns": 1000, "ps": 1}[unit])


def check_arrows(algorithm: Algorithm, shown: Shown, unit: int) -> None:
    """They lead from where a chunk comes in to where it goes out again; none is missing."""
    for a, b in shown.arrows:
        assert a.name == b.name
        assert a.track.endswith(f"to {b.process}")
        assert dict(a.arguments)["arrival_ps"] // unit <= b.begin
    fed = {b for _, b in shown.arrows}
    sources = {
        (chunk, d)
        for chunk in range(len(algorithm.conditions))
        for d in algorithm.conditions.sources(chunk)
    }
    relayed = [
        i
        for i, t in enumerate(zip(algorithm.transfers.chunk, algorithm.transfers.src, strict=True))
        if t not in sources
    ]
    names = expected(algorithm)
    assert {(names[i].process, names[i].track, names[i].name) for i in relayed} <= {
        (b.process, b.track, b.name) for b in fed
    }


def test_arrows_follow_a_tree(tmp_path: Path) -> None:
    """What is handed on twice has two arrows, and each of them its own end."""
    star = pccl.topology.switch(3)
    pccl.export(pccl.synthesize(star, Broadcast("1kB"), effort="fast"), tmp_path / "tree.pftrace")
    shown = read_perfetto(tmp_path / "tree.pftrace")
    assert {(a.process, b.process) for a, b in shown.arrows} == {("npu0", "switch0")}
    assert len(shown.arrows) == 2


def test_how_busy_links_are(algorithm: Algorithm, tmp_path: Path) -> None:
    pccl.export(algorithm, tmp_path / "load.pftrace", intervals=10, unit="ps")
    counters = read_perfetto(tmp_path / "load.pftrace").counters
    simulation = pccl.simulate(algorithm)
    assert np.array_equal(simulation.start, algorithm.transfers.start)
    busy, topology = simulation.link_busy, algorithm.topology
    (width,) = {b[0] - a[0] for track in counters.values() for a, b in pairwise(track)}
    for (process, name), track in counters.items():
        own = (
            busy
            if name == "all links held"
            else busy[topology.src == topology.labels.index(process)]
        )
        held = sum(share for _, share in track[:-1]) / 100 * width * len(own)
        rounding = 10 * 0.0005 / 100 * width * len(own)
        assert held == pytest.approx(own.sum(), abs=rounding)
        assert (len(track), track[0][0], track[-1][1]) == (11, 0, 0.0)


def test_a_link_that_is_held_half_of_the_time(tmp_path: Path) -> None:
    rows = [(0, 0, 1, 0), (1, 0, 1, 3), (0, 1, 2, 1), (1, 1, 2, 7)]
    pccl.export(
        schedule(LINE, Broadcast("2kB", chunks=2), *rows), tmp_path / "half.pftrace", intervals=4
    )
    counters = read_perfetto(tmp_path / "half.pftrace").counters
    assert counters["npu0", "links held"] == [
        (0, 50.0),
        (2000, 50.0),
        (4000, 0.0),
        (6000, 0.0),
        (8000, 0.0),
    ]
    assert counters["npu1", "links held"] == [
        (0, 25.0),
        (2000, 0.0),
        (4000, 0.0),
        (6000, 25.0),
        (8000, 0.0),
    ]
    assert set(counters) == {("npu0", "links held"), ("npu1", "links held"), ("", "all links held")}


def test_merged(tmp_path: Path) -> None:
    rows = [(0, 0, 1, 0), (1, 0, 1, 1), (2, 0, 1, 5), (0, 1, 2, 1), (1, 1, 2, 2), (2, 1, 2, 6)]
    path = tmp_path / "merged.pftrace"
    pccl.export(schedule(LINE, Broadcast("3kB", chunks=3), *rows), path, merge=True)
    shown = read_perfetto(path)
    assert not shown.arrows
    assert [
        (s.begin, s.end, s.name, dict(s.arguments))
        for s in sorted(shown.slices)
        if s.process == "npu0"
    ] == [
        (0, 2000, "transfers: 2", {"bytes": 2000, "transfers": 2}),
        (5000, 6000, "transfers: 1", {"bytes": 1000, "transfers": 1}),
    ]


def test_too_many_slices(algorithm: Algorithm, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(perfetto, "MOST_SLICES", 51)
    with pytest.raises(
        PcclError,
        match=r"52 transfers are more than viewers can show \(51 .*merge=True \(--merge\) joins",
    ):
        pccl.export(algorithm, tmp_path / "much.pftrace")
    pccl.export(algorithm, tmp_path / "much.pftrace", merge=True)
    monkeypatch.setattr(perfetto, "MOST_SLICES", 5)
    with pytest.raises(
        PcclError, match=r"even merged, \d+ slices are more than viewers can show \(5\)"
    ):
        pccl.export(algorithm, tmp_path / "much.pftrace", merge=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"unit": "us"}, "there is no unit 'us'; there are ns, ps"),
        ({"intervals": 0}, "intervals must be from 1 to 100,000, not 0"),
        ({"colour": "red"}, "has no option 'colour'"),
    ],
)
def test_settings_that_are_refused(
    algorithm: Algorithm, tmp_path: Path, settings, message: str
) -> None:
    with pytest.raises(PcclError, match=message):
        pccl.export(algorithm, tmp_path / "a.pftrace", **settings)
    assert not list(tmp_path.iterdir())


def test_wrong_algorithms_are_refused(tmp_path: Path) -> None:
    early = Algorithm.build(LINE, [Broadcast("1kB")], [0], [0], [-US])
    with pytest.raises(
        PcclError,
        match=r"which is wrong: chunk 0 over link 0 \(NPU 0 -> NPU 1\) starts before time zero",
    ):
        pccl.export(early, tmp_path / "early.pftrace")
    both = schedule(LINE, Broadcast("2kB", chunks=2), (0, 0, 1, 0), (1, 0, 1, 0.5))
    with pytest.raises(PcclError, match=r"chunk 1 over link 0 .* starts while its link is held"):
        pccl.export(both, tmp_path / "both.pftrace")


def test_an_algorithm_without_transfers(tmp_path: Path) -> None:
    path = tmp_path / "none.pftrace"
    pccl.export(pccl.synthesize(pccl.topology.ring(3), Broadcast("1kB", [1]), effort="fast"), path)
    shown = read_perfetto(path)
    assert (shown.slices, shown.arrows, shown.counters) == ([], set(), {})


def test_absent_devices_are_not_shown(tmp_path: Path) -> None:
    damaged = pccl.topology.ring(4).without(devices=[2])
    pccl.export(
        pccl.synthesize(damaged, AllGather("3kB", [0, 1, 3]), effort="fast"), tmp_path / "a.pftrace"
    )
    trace = Trace.FromString((tmp_path / "a.pftrace").read_bytes())
    processes = [
        p.track_descriptor.process.process_name
        for p in trace.packet
        if p.track_descriptor.HasField("process")
    ]
    assert processes == ["npu0", "npu1", "npu3"]


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
    flags = ["--unit", "ps", "--intervals", 7, "--merge"]
    result = program("export", saved, "-o", tmp_path / "ring.pftrace", *flags)
    assert result.exit_code == 0, result.output
    assert "slices" in result.stdout
    pccl.export(pccl.load(saved), tmp_path / "same.pftrace", unit="ps", intervals=7, merge=True)
    assert (tmp_path / "same.pftrace").read_bytes() == (tmp_path / "ring.pftrace").read_bytes()


# --- the wire format --------------------------------------------------------------------------------------------------

numbers = st.lists(st.integers(0, 2**64 - 1), max_size=20)


@slow_but_fine
@given(numbers, st.integers(1, 2**20))
def test_columns_are_written_like_single_fields(values: list[int], tag: int) -> None:
    column = wire.numbers(tag, np.array(values, np.uint64))
    assert column.render().tobytes() == b"".join(wire.field(tag, value) for value in values)
    assert column.lengths.tolist() == [len(wire.field(tag, value)) for value in values]
    nested = wire.messages(tag, wire.concat(column, wire.constant(b"abc", len(values))))
    assert nested.render().tobytes() == b"".join(
        wire.field(tag, wire.field(tag, v) + b"abc") for v in values
    )


@slow_but_fine
@given(st.lists(st.lists(st.integers(0, 2**63 - 1), max_size=4), max_size=8))
def test_repeated_fields(rows: list[list[int]]) -> None:
    values = np.array([value for row in rows for value in row], np.int64)
    column = wire.grouped(wire.numbers(5, values), np.array([len(row) for row in rows], np.int64))
    assert column.lengths.tolist() == [
        len(b"".join(wire.field(5, value) for value in row)) for row in rows
    ]
    assert wire.delimited(column).render().tobytes() == b"".join(
        wire.varint(len(text)) + text
        for row in rows
        for text in [b"".join(wire.field(5, value) for value in row)]
    )
    chosen = np.flatnonzero([len(row) % 2 for row in rows])
    spread = wire.spread(wire.digits(chosen), chosen, len(rows))
    assert spread.lengths.tolist() == [
        len(str(i)) if len(row) % 2 else 0 for i, row in enumerate(rows)
    ]


def test_fields_as_protocol_buffers_read_them() -> None:
    event = TrackEvent.FromString(
        wire.field(9, 1) + wire.field(23, "naïve") + wire.field(11, 2**64 - 1)
    )
    assert (event.type, event.name, event.track_uuid) == (
        TrackEvent.TYPE_SLICE_BEGIN,
        "naïve",
        2**64 - 1,
    )
    flows = (
        wire.grouped(wire.fixed64s(47, np.array([1, 2**63 - 1])), np.array([2])).render().tobytes()
    )
    assert list(TrackEvent.FromString(flows).flow_ids) == [1, 2**63 - 1]
    value = wire.fixed64s(44, np.array([0.1])).render().tobytes()
    assert TrackEvent.FromString(value).double_counter_value == 0.1
