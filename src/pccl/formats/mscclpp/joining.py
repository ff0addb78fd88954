"""Single messages joined with their neighbours, as few as possible, where ranks have no room for each by itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pccl._arrays import Ints, distinct, inverse, offsets_by_owner
from pccl.formats.mscclpp.batches import Batches, all_pairs, positions
from pccl.formats.mscclpp.joining_kernels import (
    NONE,
    Late,
    Room,
    Runs,
    Scratch,
    Waits,
    join,
    settle,
)

# Messages that share a signal, at most.
MOST_TOGETHER = 16


class Joining:
    """Single messages, made ready to be joined.

    Parameters
    ----------
    singles
        Every message by itself.
    load
        Per rank: the operations of all that it does.
    """

    def __init__(self, singles: Batches, load: Ints) -> None:
        self._singles = singles
        self._load = load
        waits = _waits(singles)
        events = len(waits.first_after) - 1
        keys, items, late_keys, late_items, stack = np.empty((5, events), np.int64)
        late = Late(late_keys, late_items, np.zeros(events, np.bool_))
        self._waits = waits
        self._scratch = Scratch(keys, items, late, stack, np.zeros(events, np.int64))
        self._single = _single_runs(singles, waits)
        settle(waits, self._single, self._scratch)

    def within(self, room: Ints) -> Batches:
        """Batches of them, so that no rank has a greater load than room, as far as joining helps."""
        singles = self._singles
        runs = Runs._make(column.copy() for column in self._single)
        limits = Room(singles.src, singles.dst, singles.port, self._load.copy(), room)
        self._scratch.mark[:] = 0
        join(self._waits, runs, limits, self._scratch, MOST_TOGETHER)
        return _batches(singles, runs.of[: len(singles)])


def _waits(singles: Batches) -> Waits:
    """What waits for what; copies take part as messages that are there as soon as they are sent."""
    count = len(singles)
    nodes = len(singles.time) - count
    copies = np.arange(count, nodes)
    event = np.concatenate([np.arange(count), nodes + np.arange(count), copies])
    first, then = all_pairs(singles.pairs, singles.port)
    # A send comes before its own receipt anyway.
    first = event[first[: len(singles.pairs[0])]]
    then = event[then[: len(singles.pairs[0])]]
    return Waits(
        offsets_by_owner(first, 2 * nodes),
        then[np.argsort(first, kind="stable")],
        offsets_by_owner(then, 2 * nodes),
        first[np.argsort(then, kind="stable")],
    )


def _single_runs(singles: Batches, waits: Waits) -> Runs:
    """Every message as a run of its own; copies are never joined."""
    count = len(singles)
    everything = np.arange(len(singles.time) - count)
    nodes = len(everything)
    leave = np.concatenate([singles.time[:count], singles.time[2 * count :]])
    land = singles.time[count:].copy()
    time = np.concatenate([leave, land])
    followers = np.diff(waits.first_after)
    needs = np.diff(waits.first_before)
    # When the first that waits for an event needs it, and when the last that it waits for is there.
    use = np.full(len(time), time.max(initial=0))
    np.minimum.at(use, np.repeat(np.arange(len(time)), followers), time[waits.after])
    ready = np.zeros(len(time), np.int64)
    np.maximum.at(ready, np.repeat(np.arange(len(time)), needs), time[waits.before])
    is_message = everything < count
    staged = np.zeros(nodes, np.bool_)
    staged[:count] = singles.staged
    return Runs(
        ready=ready[:nodes],
        leave=leave,
        land=land,
        use=use[nodes:],
        travel=land - leave,
        waits=is_message & (needs[:nodes] > 0),
        tells=is_message & (followers[nodes:] > 0),
        staged=staged,
        holds=followers[:nodes] > 0,
        queues=needs[nodes:] > 0,
        size=np.ones(nodes, np.int64),
        last=everything.copy(),
        next=np.append(_behind(singles), np.full(nodes - count, NONE)),
        of=everything.copy(),
        link=np.full(nodes, NONE),
    )


def _behind(singles: Batches) -> Ints:
    """Per message: the next between its ranks, in the order in which they are sent."""
    count = len(singles)
    order = np.lexsort((singles.position[:count], singles.dst, singles.src))
    one, other = order[:-1], order[1:]
    same = singles.src[one] == singles.src[other]
    same &= singles.dst[one] == singles.dst[other]
    behind = np.full(count, NONE, np.int64)
    behind[one[same]] = other[same]
    return behind


def _batches(singles: Batches, runs: Ints) -> Batches:
    """The messages of every run as a batch."""
    count = len(singles)
    copies = len(singles.time) - 2 * count
    # In the order in which they are sent.
    order = np.argsort(singles.position[:count])
    _, first, inverse_of = np.unique(runs[order], return_index=True, return_inverse=True)
    batch_of = np.empty(count, np.int64)
    batch_of[order] = inverse(np.argsort(first))[inverse_of]
    total = len(first)
    by_batch = order[np.argsort(batch_of[order], kind="stable")]
    bounds = pairwise(offsets_by_owner(batch_of, total).tolist())
    listed = by_batch.tolist()
    messages = [listed[low:high] for low, high in bounds]
    events = 2 * total + copies
    # What becomes of the events: sends, receipts, copies.
    moved = np.concatenate([batch_of, total + batch_of, 2 * total + np.arange(copies)])
    first, then = singles.pairs
    # Batches wait for each other once, however many of their messages do.
    then, first = np.divmod(distinct(moved[then] * events + moved[first]), events)
    # A batch is as late as the last of its messages.
    time = np.zeros(events, np.int64)
    np.maximum.at(time, moved, singles.time)
    # Messages of a batch agree in their ends.
    sample = [batch[0] for batch in messages]
    ends = (singles.src[sample], singles.dst[sample], singles.port[sample])
    position = positions((first, then), time, ends[2])
    return Batches(messages, *ends, singles.staged, (first, then), time, position)
