"""What has to wait for what on a rank: accesses to the same place of its buffers, in their planned order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Column, Ints, inverse, offsets_by_owner
from pccl.formats.lowering.kernels import order_events
from pccl.formats.lowering.program import INPUT, OUTPUT, Copies, Messages


class _Accesses(NamedTuple):
    """Events that read or write a place of a rank: when, and in which order of those at the same time."""

    event: Ints
    rank: Ints
    buffer: Ints
    offset: Ints
    time: Ints
    order: Ints

    def where(self, rows: Column) -> _Accesses:
        return _Accesses(*(column[rows] for column in self))


def order_of(messages: Messages, copies: Copies, sequence: Ints, shift: Ints | None) -> Ints:
    """Return pairs of events that touch the same place, at least one of them writing, in their planned order.

    Parameters
    ----------
    messages, copies
        What happens; see :class:`~pccl.formats.lowering.program.Program` for the numbers of events.
    sequence
        Per message: the order among those that arrive at the same time.
    shift
        Per rank: where the input lies in the output, if both are one buffer.
    """
    m = messages
    c = copies
    count = len(m)
    sends = np.arange(count)
    receives = sends + count
    copied = np.arange(len(c)) + 2 * count
    received = _Accesses(receives, m.dst, m.write_buffer, m.write_offset, m.arrival, sequence)
    written = _Accesses(copied, c.rank, c.write_buffer, c.write_offset, c.time, copied)
    sent = _Accesses(sends, m.src, m.read_buffer, m.read_offset, m.start, sequence)
    added = _Accesses(receives, m.dst, m.add_buffer, m.add_offset, m.arrival, sequence)
    read = _Accesses(copied, c.rank, c.read_buffer, c.read_offset, c.time, copied)
    # What is added to another place than the input is the place written to, and counts already.
    parts = (received, written, sent, added.where(m.reduce & (m.add_buffer == INPUT)), read)
    every = _Accesses(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    # The first two parts write.
    writes = np.arange(len(every.event)) < count + len(c)
    place = _places(every, shift)
    kept = _without_own(every.event, place, writes, 2 * count)
    # By place and time. At the same time writes come first, as what arrives when something starts is there in
    # time.
    order = np.lexsort((every.order[kept], ~writes[kept], every.time[kept], place[kept]))
    kept = kept[order]
    return _conflicts(every.event[kept], place[kept], writes[kept])


def _places(every: _Accesses, shift: Ints | None) -> Ints:
    """Return a number for the place that each access is to."""
    buffer = every.buffer
    offset = every.offset
    if shift is not None:
        in_input = buffer == INPUT
        offset = np.where(in_input, offset + shift[every.rank], offset)
        buffer = np.where(in_input, OUTPUT, buffer)
    # Offsets are large: numbers from zero on fit into one key.
    offsets, where = np.unique(offset, return_inverse=True)
    found: Ints = (every.rank * 3 + buffer) * len(offsets) + where
    return found


def _without_own(event: Ints, place: Ints, writes: Bools, first_copy: int) -> Ints:
    """Leave out reads of what the same event writes; and all of a copy of a place onto itself, which does nothing."""
    # An event reads one place at most, and writes one at most.
    read, written = np.full((2, int(event.max(initial=0)) + 1), -1)
    read[event[~writes]] = place[~writes]
    written[event[writes]] = place[writes]
    own = ~writes & (place == written[event])
    idle = writes & (event >= first_copy) & (place == read[event])
    return np.flatnonzero(~(own | idle))


def _conflicts(event: Ints, place: Ints, writes: Bools) -> Ints:
    """Return neighbours in conflict, of accesses sorted by place and time.

    Everything waits for the last write of its place before it; a write waits for all reads since then as well.
    """
    count = len(event)
    index = np.arange(count)
    last_write = np.maximum.accumulate(np.where(writes, index, -1))
    # The last write in front of each access.
    before = np.append([-1], last_write)[:count]
    follows = np.flatnonzero((before >= 0) & (place[before] == place))
    next_write = np.minimum.accumulate(np.where(writes, index, count)[::-1])[::-1]
    # Behind the last access nothing is written.
    same_place = np.append(place, -1)[next_write] == place
    waits = np.flatnonzero(~writes & same_place)
    first = np.concatenate([before[follows], waits])
    second = np.concatenate([follows, next_write[waits]])
    # A sum reads and writes its place in one event, which does not wait for itself.
    pairs = np.stack([event[first], event[second]], axis=1)
    different: Ints = pairs[pairs[:, 0] != pairs[:, 1]]
    return different


def sorted_events(time: Ints, before: Ints, after: Ints) -> Ints:
    """Return all events by time, but ``after[i]`` always after ``before[i]``; those that wait in a circle are left out.

    Examples
    --------
    >>> sorted_events(np.array([5, 1, 3]), np.array([0]), np.array([1])).tolist()
    [2, 0, 1]
    """
    count = len(time)
    # Renumbered by time, the smallest number is the earliest event.
    by_time = np.argsort(time, kind="stable")
    number = inverse(by_time)
    followers = number[after[np.argsort(number[before], kind="stable")]]
    offsets = offsets_by_owner(number[before], count)
    missing = np.bincount(followers, minlength=count)
    order = np.empty(count, np.int64)
    done = order_events(missing, offsets, followers, np.empty(count, np.int64), order)
    found: Ints = by_time[order[:done]]
    return found
