"""The trace: processes for devices, tracks for links, slices for transfers, arrows for chunks, counters for load.

A link is busy while it is held; a chunk arrives when the latency of the link has passed as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pccl._arrays import Column as Values
from pccl._arrays import Ints, inverse, offsets_by_owner, take_rows
from pccl._files import replacing
from pccl.algorithm import Algorithm
from pccl.algorithm.core import needs_text
from pccl.algorithm.holding import held_time
from pccl.errors import PcclError
from pccl.formats.lowering.deliveries import feeds
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
from pccl.topology.parts import ABSENT

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
    count = len(algorithm.transfers)
    if not merge and count > MOST_SLICES:
        raise PcclError(
            f"{count:,} transfers are more than viewers can show ({MOST_SLICES:,} for this format); "
            "merge=True (--merge) joins those that follow one another on a link"
        )
    slices = _slices(algorithm, merge)
    count = len(slices.track)
    if count > MOST_SLICES:
        raise PcclError(
            f"even merged, {count:,} slices are more than viewers can show ({MOST_SLICES:,})"
        )
    # Pairs of slices between which a chunk is handed on.
    # Merged slices stand for many chunks, which no arrow could follow.
    arrows = np.zeros((2, 0), np.int64)
    if not merge:
        arrows = inverse(slices.first)[np.stack(feeds(algorithm))]
    with replacing(path) as file:
        file.write(b"".join(_heads(algorithm)))
        for events in _events(algorithm, slices, arrows, PICOSECONDS[unit]):
            file.write(events.render().data)
        file.write(_counters(algorithm, intervals, PICOSECONDS[unit]).render().data)
    facts = {"slices": f"{count:,}", "arrows": f"{arrows.shape[1]:,}"}
    if algorithm.needs:
        facts["needs"] = needs_text(algorithm.needs)
    return facts


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
    # Viewers sort the tracks of links by their ranks, not by their names.
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


@dataclass(frozen=True)
class _Slices:
    """Times at which links are held, ordered by link and time; those of one link do not overlap.

    Attributes
    ----------
    track, begin, end
        The track of the link that is held, from when until when (picoseconds).
    first
        The first transfer of the slice.
    count
        How many transfers it stands for: one, unless transfers that follow one another were merged.
    bytes
        How much is transferred in it.
    """

    track: Ints
    begin: Ints
    end: Ints
    first: Ints
    count: Ints
    bytes: Ints


def _slices(algorithm: Algorithm, merge: bool) -> _Slices:
    """Return a slice per transfer, or per run of transfers that follow one another; raise if that cannot be shown."""
    t = algorithm.transfers
    order = np.lexsort((t.start, t.link))
    link = t.link[order]
    begin = t.start[order]
    end = begin + t.hold[order]
    same = link[1:] == link[:-1]
    for wrong, text in (
        (np.flatnonzero(begin < 0), "starts before time zero"),
        (np.flatnonzero(same & (begin[1:] < end[:-1])) + 1, "starts while its link is held"),
    ):
        if len(wrong):
            chunk = t.chunk[order[wrong[0]]]
            where = algorithm.topology.link_text(int(link[wrong[0]]))
            raise PcclError(
                f"cannot show this algorithm, which is wrong: chunk {chunk} over {where} {text}"
            )
    joined = np.zeros(len(order), np.bool_)
    if merge:
        joined[1:] = same & (begin[1:] == end[:-1])
    first = np.flatnonzero(~joined)
    count = np.diff(first, append=len(order))
    return _Slices(
        track=link[first] + np.int64(_first_link(algorithm.topology)),
        begin=begin[first],
        end=end[first + count - 1],
        first=order[first],
        count=count,
        bytes=np.add.reduceat(t.bytes[order], first),
    )


def _events(algorithm: Algorithm, slices: _Slices, arrows: Ints, unit: int) -> Iterator[Column]:
    """Yield begins and ends in the order of time; where they coincide, in the order in which a link serves."""
    # Begins have even numbers and ends odd ones: those of slice i are 2 i and 2 i + 1.
    time = np.stack([slices.begin, slices.end], axis=1).ravel() // unit
    order = np.argsort(time, kind="stable")
    # Which arrows begin at each slice, and which end there.
    flows = {
        tag: (offsets_by_owner(ends, len(slices.track)), np.argsort(ends, kind="stable"))
        for tag, ends in zip((_FLOW, _LAST_FLOW), arrows, strict=True)
    }
    for first in range(0, len(order), _BLOCK):
        event = order[first : first + _BLOCK]
        begins = np.flatnonzero(event % 2 == 0)
        ends = np.flatnonzero(event % 2 == 1)
        begun = _begins(algorithm, slices, event[begins] // 2, flows)
        ended = _event(_END, slices.track[event[ends] // 2])
        both = concat(spread(begun, begins, len(event)), spread(ended, ends, len(event)))
        yield _packets(time[event], both)


def _begins(
    algorithm: Algorithm, slices: _Slices, rows: Ints, flows: dict[int, tuple[Ints, Ints]]
) -> Column:
    count = slices.count[rows]
    values: dict[str, Values] = {"bytes": slices.bytes[rows]}
    if np.any(slices.count > 1):
        values["transfers"] = count
        name = concat(constant(b"transfers: ", len(rows)), digits(count))
    else:
        t = algorithm.transfers
        first = slices.first[rows]
        chunk = t.chunk[first]
        values["piece"] = t.conditions.piece[chunk]
        values["arrival_ps"] = t.arrival[first]
        values["reduce"] = t.reduce[first]
        values["collective"] = t.conditions.collective[chunk] + 1
        name = concat(constant(b"chunk ", len(rows)), digits(chunk))
    parts = [_event(_BEGIN, slices.track[rows]), messages(_NAME, name)]
    for number, (name_of, tag) in enumerate(_ARGUMENTS.items(), 1):
        if name_of in values:
            named = constant(field(1, number), len(rows))
            parts.append(messages(_ANNOTATION, concat(named, numbers(tag, values[name_of]))))
    for tag, arrows in flows.items():
        offsets, taken = take_rows(*arrows, rows)
        parts.append(grouped(fixed64s(tag, taken + 1), np.diff(offsets)))
    return concat(*parts)


def _event(kind: int, track: Ints) -> Column:
    return concat(constant(field(_TYPE, kind), len(track)), numbers(_TRACK_UUID, track))


def _packets(time: Ints, event: Column) -> Column:
    fixed = constant(field(_SEQUENCE, 1) + field(_FLAGS, _NEEDS_NAMES), len(time))
    content = concat(numbers(_TIMESTAMP, time), fixed, messages(_TRACK_EVENT, event))
    return messages(_PACKET, content)


def _counters(algorithm: Algorithm, intervals: int, unit: int) -> Column:
    """Return which share of its links is held, interval by interval, for every device that ever sends and for all."""
    t = algorithm.transfers
    topology = algorithm.topology
    devices = topology.num_devices
    end = int((t.start + t.hold).max(initial=0))
    width = max(-(-end // intervals), 1)
    held = held_time(t.src, t.start, t.hold, rows=devices, intervals=intervals, width=width)
    held = np.vstack([held, held.sum(axis=0)])
    links = np.append(np.bincount(topology.src, minlength=devices), topology.num_links)
    # A counter keeps its last value, so that there is one more moment, when nothing is held.
    load = np.pad(held / (width * np.maximum(links, 1))[:, None], ((0, 0), (0, 1)))
    busy = np.flatnonzero(np.any(load > 0, axis=1))
    moment = np.repeat(np.arange(intervals + 1), len(busy))
    device = np.tile(busy, intervals + 1)
    value = fixed64s(_VALUE, np.round(load[device, moment] * 100, 3))
    event = concat(_event(_COUNTER, device + _first_load(topology)), value)
    return _packets(moment * width // unit, event)
