"""What has to wait for what on a rank: accesses to the same place of its buffers, in their planned order."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Bools, Ints, offsets_by_owner
from pccl.formats.ordering_kernels import order_events
from pccl.formats.program import INPUT, OUTPUT, Copies, Messages

__all__ = ["order_of", "sorted_events"]


def order_of(messages: Messages, copies: Copies, sequence: Ints, shift: Ints | None) -> Ints:
    """Pairs of events that touch the same place of a rank, at least one of them writing, in their planned order."""
    count, m, c = len(messages), messages, copies
    sends, receives, copied = np.split(np.arange(2 * count + len(c)), [count, 2 * count])
    # Event, rank, buffer, offset, time, order among equals.
    writes = [
        (receives, m.dst, m.write_buffer, m.write_offset, m.arrival, sequence),
        (copied, c.rank, c.write_buffer, c.write_offset, c.time, copied),
    ]
    reads = [
        (sends, m.src, m.read_buffer, m.read_offset, m.start, sequence),
        *((receives[r], m.dst[r], m.add_buffer[r], m.add_offset[r], m.arrival[r], sequence[r])
          for r in [np.flatnonzero(m.reduce & (m.add_buffer == INPUT))]),
        (copied, c.rank, c.read_buffer, c.read_offset, c.time, copied),
    ]  # fmt: skip
    event, rank, buffer, offset, time, order = (
        np.concatenate(column) for column in zip(*writes, *reads, strict=True)
    )
    is_write = np.arange(len(event)) < count + len(c)
    if shift is not None:  # the input is a part of the output, or the other way round
        offset = np.where(buffer == INPUT, offset + shift[rank], offset)
        buffer = np.where(buffer == INPUT, OUTPUT, buffer)
    offsets, where = np.unique(offset, return_inverse=True)
    place = (rank * 3 + buffer) * len(offsets) + where
    place = np.unique(place, return_inverse=True)[1]
    kept = _without_own(event, place, is_write, int(copied[0]) if len(copied) else len(event) + 1)
    by = np.flatnonzero(kept)
    by = by[np.lexsort((order[by], ~is_write[by], time[by], place[by]))]
    return _conflicts(event[by], place[by], is_write[by])


def _without_own(event: Ints, place: Ints, is_write: Bools, first_copy: int) -> Bools:
    """Leave out reads of what the same event writes; and a copy of a place onto itself, which does nothing, at all."""
    key = event * (int(place.max(initial=0)) + 1) + place
    read_too = np.isin(key, key[~is_write]) & is_write
    own = ~is_write & np.isin(key, key[is_write])
    idle = read_too & (event >= first_copy)
    return ~(own | idle)


def _conflicts(event: Ints, place: Ints, writes: Bools) -> Ints:
    """Neighbours in conflict, of accesses sorted by place and order."""
    index = np.arange(len(event))
    last = np.maximum.accumulate(np.where(writes, index, -1)) if len(index) else index
    before_me = np.concatenate([[-1], last[:-1]]) if len(index) else index
    follows = np.flatnonzero((before_me >= 0) & (place[before_me] == place))
    then = np.where(writes, index, len(index))
    ahead = np.minimum.accumulate(then[::-1])[::-1] if len(index) else index
    waits = np.flatnonzero(
        ~writes & (ahead < len(index)) & (place[np.minimum(ahead, len(index) - 1)] == place)
    )
    pairs = np.concatenate(
        [
            np.stack([event[before_me[follows]], event[follows]], 1),
            np.stack([event[waits], event[ahead[waits]]], 1),
        ]
    )
    different: Ints = pairs[pairs[:, 0] != pairs[:, 1]]
    return different


def sorted_events(time: Ints, before: Ints, after: Ints) -> Ints:
    """All events by time, but ``after[i]`` always after ``before[i]``; those that wait in a circle are left out.

    Examples
    --------
    >>> sorted_events(np.array([5, 1, 3]), np.array([0]), np.array([1])).tolist()
    [2, 0, 1]
    """
    count = len(time)
    by_time = np.argsort(time, kind="stable")
    number = np.empty(count, np.int64)
    number[by_time] = np.arange(count)
    followers = number[after[np.argsort(number[before], kind="stable")]]
    missing, order = np.bincount(followers, minlength=count), np.empty(count, np.int64)
    done = order_events(
        missing,
        offsets_by_owner(number[before], count),
        followers,
        np.empty(count, np.int64),
        order,
    )
    found: Ints = by_time[order[:done]]
    return found
