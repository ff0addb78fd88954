"""Traces for ui.perfetto.dev.

Shown are a process for every device, a track for every link that leaves it, a slice for every transfer, arrows along
the way of a chunk, and how busy the links of a device are. A link is busy while it is held; a chunk arrives when the
latency of the link has passed as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pccl._arrays import Ints, offsets_of
from pccl._files import replacing
from pccl.algorithm import Algorithm
from pccl.errors import PcclError
from pccl.formats.perfetto.timeline import Timeline, timeline
from pccl.formats.wire import (
    Column,
    concat,
    constant,
    digits,
    field,
    fixed64s,
    grouped,
    messages,
    numbers,
    spread,
)
from pccl.topology import Topology
from pccl.topology.core import ABSENT

__all__ = ["PICOSECONDS", "check_settings", "write"]

PICOSECONDS = {"ns": 1000, "ps": 1}  # of a unit of the trace, which viewers take for a nanosecond
MOST_SLICES = 5_000_000
_BLOCK = 200_000  # events that are written at a time

# Fields of the messages of Perfetto (perfetto/trace/*.proto) that we use.
_PACKET = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _TRACK = (
    8,
    10,
    11,
    12,
    13,
    60,
)  # of TracePacket
_TYPE, _TRACK_UUID, _NAME, _ANNOTATION, _FLOW, _LAST_FLOW, _VALUE = (
    9,
    11,
    23,
    4,
    47,
    48,
    44,
)  # of TrackEvent
_BEGIN, _END, _COUNTER = 1, 2, 4  # types of a TrackEvent
_STARTS_ANEW, _NEEDS_NAMES = 1, 2  # flags of a TracePacket
_ARGUMENTS = ("bytes", "transfers", "piece", "arrival_ps", "reduce", "collective")


def write(
    algorithm: Algorithm,
    path: str | Path,
    *,
    merge: bool = False,
    intervals: int = 100,
    unit: str = "ns",
) -> dict[str, str]:
    """Write a ``.pftrace`` file.

    Parameters
    ----------
    algorithm, path
        What to show, and where to write it.
    merge
        Join transfers that follow one another on a link, for algorithms with very many of them; chunks are not told
        apart then.
    intervals
        For how many intervals of time to count how busy links are.
    unit
        ``"ns"``; or ``"ps"``, which shows a picosecond as a nanosecond, for schedules so short that it matters.
    """
    check_settings(intervals, unit)
    shown = timeline(algorithm, merge=merge, intervals=intervals, most=MOST_SLICES)
    with replacing(path) as file:
        file.write(b"".join(_heads(algorithm)))
        _write_slices(file, shown, PICOSECONDS[unit])
        file.write(_counters(shown, PICOSECONDS[unit]).render().data)
    return {"slices": f"{len(shown.slices):,}", "arrows": f"{len(shown.before):,}"}


def check_settings(intervals: int, unit: str) -> None:
    """Raise unless a trace can be written like that."""
    if unit not in PICOSECONDS:
        raise PcclError(f"there is no unit {unit!r}; there are {', '.join(PICOSECONDS)}")
    if not 1 <= intervals <= 100_000:
        raise PcclError(f"intervals must be from 1 to 100,000, not {intervals}")


# --- what there is: names and tracks ----------------------------------------------------------------------------------


def _heads(algorithm: Algorithm) -> Iterator[bytes]:
    names = [field(3, field(1, i) + field(2, name)) for i, name in enumerate(_ARGUMENTS, start=1)]
    kinds = [
        field(29, field(1, i) + field(2, f"{i - 1} {c.kind}"))
        for i, c in enumerate(algorithm.collectives, 1)
    ]
    yield _packet(field(_FLAGS, _STARTS_ANEW) + field(_INTERNED, b"".join(names + kinds)))
    topology, first = algorithm.topology, _first_tracks(algorithm.topology)
    in_given_order = field(11, 3)
    for device in np.flatnonzero(topology.kind != ABSENT).tolist():
        process = field(1, device + 1) + field(6, topology.labels[device])
        yield _track(first["device"] + device, field(3, process) + in_given_order)
        yield _track(
            first["load"] + device, _load_track("links held") + field(5, first["device"] + device)
        )
    yield _track(first["load"] + topology.num_devices, _load_track("all links held"))
    for link, (src, dst) in enumerate(
        zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    ):
        name = field(2, f"link {link} to {topology.labels[dst]}")
        yield _track(
            first["link"] + link, name + field(5, first["device"] + src) + field(12, link + 1)
        )


def _first_tracks(topology: Topology) -> dict[str, int]:
    """Tracks are numbered: devices, links, and how busy the links of each device and all of them are."""
    return {
        "device": 1,
        "link": 1 + topology.num_devices,
        "load": 1 + topology.num_devices + topology.num_links,
    }


def _track(uuid: int, content: bytes) -> bytes:
    return _packet(field(_TRACK, field(1, uuid) + content))


def _load_track(name: str) -> bytes:
    return field(2, name) + field(8, field(6, "%"))


def _packet(content: bytes) -> bytes:
    return field(_PACKET, content + field(_SEQUENCE, 1))


# --- what happens -----------------------------------------------------------------------------------------------------


def _write_slices(file: BinaryIO, shown: Timeline, unit: int) -> None:
    """Begins and ends in the order of time; where they coincide, in the order in which a link serves."""
    time = np.stack([shown.slices.begin, shown.slices.end], axis=1).ravel() // unit
    order = np.argsort(time, kind="stable")
    flows = [_lists(shown.before, len(shown.slices)), _lists(shown.after, len(shown.slices))]
    for begin in range(0, len(order), _BLOCK):
        event = order[begin : begin + _BLOCK]
        is_end = event % 2 == 1
        parts = (
            (_begins(shown, event[~is_end] // 2, flows), np.flatnonzero(~is_end)),
            (_ends(shown, event[is_end] // 2), np.flatnonzero(is_end)),
        )
        both = concat(*(spread(column, rows, len(event)) for column, rows in parts))
        file.write(_packets(time[event], both).render().data)


def _begins(shown: Timeline, rows: Ints, flows: list[tuple[Ints, Ints]]) -> Column:
    count, s, t = len(rows), shown.slices, shown.algorithm.transfers
    first, conditions = s.first[rows], shown.algorithm.conditions
    chunk = t.chunk[first]
    values: dict[str, NDArray[Any]] = {"bytes": s.bytes[rows]}
    if np.any(s.count > 1):
        values["transfers"] = s.count[rows]
        name = concat(digits(s.count[rows]), constant(b" transfers", count))
    else:
        arrival = s.end[rows] + np.where(t.topology.exclusive, 0, t.topology.latency)[s.link[rows]]
        values |= {
            "piece": conditions.piece[chunk],
            "arrival_ps": arrival,
            "reduce": t.reduce[first],
        }
        values["collective"] = conditions.collective[chunk] + 1
        name = concat(constant(b"chunk ", count), digits(chunk))
    return concat(
        _event(_BEGIN, shown, rows),
        messages(_NAME, name),
        *(_argument(name, column) for name, column in values.items()),
        *(_flow(tag, *lists, rows) for tag, lists in zip((_FLOW, _LAST_FLOW), flows, strict=True)),
    )


def _ends(shown: Timeline, rows: Ints) -> Column:
    return _event(_END, shown, rows)


def _event(kind: int, shown: Timeline, rows: Ints) -> Column:
    track = (
        shown.slices.link[rows].astype(np.int64) + _first_tracks(shown.algorithm.topology)["link"]
    )
    return concat(constant(field(_TYPE, kind), len(rows)), numbers(_TRACK_UUID, track))


def _argument(name: str, values: NDArray[Any]) -> Column:
    value = {"reduce": 2, "collective": 17}.get(
        name, 3
    )  # a truth value, an interned text, a number
    named = constant(field(1, _ARGUMENTS.index(name) + 1), len(values))
    return messages(_ANNOTATION, concat(named, numbers(value, values)))


def _lists(slices: Ints, count: int) -> tuple[Ints, Ints]:
    """Which arrows each slice has: those of slice `i` are ``arrows[offsets[i]:offsets[i + 1]]``."""
    offsets = offsets_of(np.bincount(slices, minlength=count))
    return offsets, np.argsort(slices, kind="stable")


def _flow(tag: int, offsets: Ints, arrows: Ints, rows: Ints) -> Column:
    counts = offsets[rows + 1] - offsets[rows]
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return grouped(fixed64s(tag, arrows[np.repeat(offsets[rows], counts) + place] + 1), counts)


def _packets(time: Ints, event: Column) -> Column:
    fixed = constant(field(_SEQUENCE, 1) + field(_FLAGS, _NEEDS_NAMES), len(time))
    return messages(
        _PACKET, concat(numbers(_TIMESTAMP, time), fixed, messages(_TRACK_EVENT, event))
    )


def _counters(shown: Timeline, unit: int) -> Column:
    """The load of every device that ever sends, and of all links."""
    busy = np.any(shown.load > 0, axis=1, keepdims=True)
    device, moment = np.nonzero(np.broadcast_to(busy, shown.load.shape))
    order = np.argsort(moment, kind="stable")
    device, moment = device[order], moment[order]
    track = numbers(_TRACK_UUID, device + _first_tracks(shown.algorithm.topology)["load"])
    value = fixed64s(_VALUE, np.round(shown.load[device, moment] * 100, 3))
    event = concat(constant(field(_TYPE, _COUNTER), len(device)), track, value)
    return _packets(shown.moments[moment] // unit, event)
