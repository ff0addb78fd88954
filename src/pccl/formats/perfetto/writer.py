"""The trace: processes for devices, tracks for links, slices for transfers, arrows for chunks, counters for load.

A link is busy while it is held; a chunk arrives when the latency of the link has passed as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pccl._arrays import Column as Values
from pccl._arrays import Ints, offsets_by_owner, take_rows
from pccl._files import replacing
from pccl.algorithm import Algorithm
from pccl.errors import PcclError
from pccl.formats.perfetto.history import History, history_of
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

__all__ = ["write"]

# Picoseconds of a unit of the trace, which viewers take for a nanosecond.
PICOSECONDS = {"ns": 1000, "ps": 1}
MOST_SLICES = 5_000_000
# Events that are written at a time.
_BLOCK = 200_000

# Fields of the messages of Perfetto (perfetto/trace/*.proto) that we use: of Trace,
_PACKET = 1
# of TracePacket,
_TIMESTAMP = 8
_SEQUENCE = 10
_TRACK_EVENT = 11
_INTERNED = 12
_FLAGS = 13
_TRACK = 60
# of TrackEvent,
_ANNOTATION = 4
_TYPE = 9
_TRACK_UUID = 11
_NAME = 23
_VALUE = 44
_FLOW = 47
_LAST_FLOW = 48
# and of DebugAnnotation.
_TRUTH = 2
_NUMBER = 3
_INTERNED_TEXT = 17
# Types of a TrackEvent.
_BEGIN = 1
_END = 2
_COUNTER = 4
# Flags of a TracePacket.
_STARTS_ANEW = 1
_NEEDS_NAMES = 2

# What slices say, and how; names are interned in this order.
_ARGUMENTS = {
    "bytes": _NUMBER,
    "transfers": _NUMBER,
    "piece": _NUMBER,
    "arrival_ps": _NUMBER,
    "reduce": _TRUTH,
    "collective": _INTERNED_TEXT,
}


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
    if unit not in PICOSECONDS:
        raise PcclError(f"there is no unit {unit!r}; there are {', '.join(PICOSECONDS)}")
    if not 1 <= intervals <= 100_000:
        raise PcclError(f"intervals must be from 1 to 100,000, not {intervals}")
    shown = history_of(algorithm, merge=merge, intervals=intervals, most=MOST_SLICES)
    with replacing(path) as file:
        file.write(b"".join(_heads(algorithm)))
        _write_slices(file, shown, PICOSECONDS[unit])
        file.write(_counters(shown, PICOSECONDS[unit]).render().data)
    return {"slices": f"{len(shown.slices):,}", "arrows": f"{len(shown.before):,}"}


# --- what there is: names and tracks ----------------------------------------------------------------------------------

# Tracks are numbered: devices, then links, then the load of each device, then that of all links.
_FIRST_DEVICE = 1


def _first_link(topology: Topology) -> int:
    return _FIRST_DEVICE + topology.num_devices


def _first_load(topology: Topology) -> int:
    return _first_link(topology) + topology.num_links


def _heads(algorithm: Algorithm) -> Iterator[bytes]:
    topology = algorithm.topology
    names = [field(3, field(1, i) + field(2, name)) for i, name in enumerate(_ARGUMENTS, 1)]
    kinds = [
        field(29, field(1, i) + field(2, f"{i - 1} {collective.kind}"))
        for i, collective in enumerate(algorithm.collectives, 1)
    ]
    yield _packet(field(_FLAGS, _STARTS_ANEW) + field(_INTERNED, b"".join(names + kinds)))
    in_given_order = field(11, 3)
    load = _first_load(topology)
    for device in np.flatnonzero(topology.kind != ABSENT).tolist():
        track = _FIRST_DEVICE + device
        process = field(1, device + 1) + field(6, topology.labels[device])
        yield _track(track, field(3, process) + in_given_order)
        yield _track(load + device, _load_track("links held") + field(5, track))
    yield _track(load + topology.num_devices, _load_track("all links held"))
    ends = zip(topology.src.tolist(), topology.dst.tolist(), strict=True)
    for link, (src, dst) in enumerate(ends):
        name = field(2, f"link {link} to {topology.labels[dst]}")
        place = field(5, _FIRST_DEVICE + src) + field(12, link + 1)
        yield _track(_first_link(topology) + link, name + place)


def _track(uuid: int, content: bytes) -> bytes:
    return _packet(field(_TRACK, field(1, uuid) + content))


def _load_track(name: str) -> bytes:
    return field(2, name) + field(8, field(6, "%"))


def _packet(content: bytes) -> bytes:
    return field(_PACKET, content + field(_SEQUENCE, 1))


# --- what happens -----------------------------------------------------------------------------------------------------


def _write_slices(file: BinaryIO, shown: History, unit: int) -> None:
    """Write begins and ends in the order of time; where they coincide, in the order in which a link serves."""
    slices = shown.slices
    time = np.stack([slices.begin, slices.end], axis=1).ravel() // unit
    order = np.argsort(time, kind="stable")
    flows = {
        _FLOW: _arrows(shown.before, len(slices)),
        _LAST_FLOW: _arrows(shown.after, len(slices)),
    }
    for first in range(0, len(order), _BLOCK):
        event = order[first : first + _BLOCK]
        begins = np.flatnonzero(event % 2 == 0)
        ends = np.flatnonzero(event % 2 == 1)
        begun = _begins(shown, event[begins] // 2, flows)
        ended = _event(_END, shown, event[ends] // 2)
        both = concat(spread(begun, begins, len(event)), spread(ended, ends, len(event)))
        file.write(_packets(time[event], both).render().data)


def _arrows(slices: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the arrows of each slice: those of slice `i` are ``arrows[offsets[i]:offsets[i + 1]]``."""
    return offsets_by_owner(slices, count), np.argsort(slices, kind="stable")


def _begins(shown: History, rows: Ints, flows: dict[int, tuple[Ints, Ints]]) -> Column:
    slices = shown.slices
    count = slices.count[rows]
    values: dict[str, Values] = {"bytes": slices.bytes[rows]}
    if np.any(slices.count > 1):
        values["transfers"] = count
        name = concat(digits(count), constant(b" transfers", len(rows)))
    else:
        t = shown.algorithm.transfers
        first = slices.first[rows]
        chunk = t.chunk[first]
        values["piece"] = t.conditions.piece[chunk]
        values["arrival_ps"] = t.arrival[first]
        values["reduce"] = t.reduce[first]
        values["collective"] = t.conditions.collective[chunk] + 1
        name = concat(constant(b"chunk ", len(rows)), digits(chunk))
    return concat(
        _event(_BEGIN, shown, rows),
        messages(_NAME, name),
        *(_argument(name, column) for name, column in values.items()),
        *(_flow(tag, arrows, rows) for tag, arrows in flows.items()),
    )


def _event(kind: int, shown: History, rows: Ints) -> Column:
    track = shown.slices.link[rows].astype(np.int64) + _first_link(shown.algorithm.topology)
    return concat(constant(field(_TYPE, kind), len(rows)), numbers(_TRACK_UUID, track))


def _argument(name: str, values: Values) -> Column:
    named = constant(field(1, list(_ARGUMENTS).index(name) + 1), len(values))
    return messages(_ANNOTATION, concat(named, numbers(_ARGUMENTS[name], values)))


def _flow(tag: int, arrows: tuple[Ints, Ints], rows: Ints) -> Column:
    offsets, taken = take_rows(*arrows, rows)
    return grouped(fixed64s(tag, taken + 1), np.diff(offsets))


def _packets(time: Ints, event: Column) -> Column:
    fixed = constant(field(_SEQUENCE, 1) + field(_FLAGS, _NEEDS_NAMES), len(time))
    content = concat(numbers(_TIMESTAMP, time), fixed, messages(_TRACK_EVENT, event))
    return messages(_PACKET, content)


def _counters(shown: History, unit: int) -> Column:
    """Return the load of every device that ever sends, and of all links."""
    busy = np.flatnonzero(np.any(shown.load > 0, axis=1))
    moment = np.repeat(np.arange(len(shown.moments)), len(busy))
    device = np.tile(busy, len(shown.moments))
    track = numbers(_TRACK_UUID, device + _first_load(shown.algorithm.topology))
    value = fixed64s(_VALUE, np.round(shown.load[device, moment] * 100, 3))
    event = concat(constant(field(_TYPE, _COUNTER), len(device)), track, value)
    return _packets(shown.moments[moment] // unit, event)
