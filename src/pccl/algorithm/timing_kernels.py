"""Compiled loops that find out what waits for what, and start transfers in that order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bools, Indices, Ints
from pccl._kernels import kernel
from pccl.errors import InternalError

NONE = np.int64(-1)


class Inputs(NamedTuple):
    """What transfers wait for: `newest[i]`, and what came to the same device before it, by way of `previous`."""

    newest: Ints
    previous: Ints


class Waits(NamedTuple):
    """What waits for what: `after[k]` until `lag[k]` past the moment of n, for k from first[n] to first[n + 1] - 1."""

    first: Ints
    after: Ints
    lag: Ints


@kernel
def find_inputs(
    first: Ints, by_arrival: Ints, src: Indices, dst: Indices, start: Ints, arrival: Ints, sums: Bools, forgets: Bools,
    gives_away: Bools, follows: Indices, passing: Bools, newest_at: Ints, chunk_at: Ints, inputs: Inputs,
) -> None:  # fmt: skip
    """Find what each transfer needs: all that is planned to be at its sender when it starts.

    Of a plain chunk the first arrival is enough, unless the sender forgets what it has sent. A message that a switch
    only passes on is no input of anything but the transfer that follows it, and what a device that cannot multiply
    has added up is an input of one transfer. Transfers come by chunk and start, `by_arrival` by chunk and arrival.
    """
    for chunk in range(len(first) - 1):
        landed = first[chunk]
        # Starts and arrivals are walked through together: all that has landed by a start has been
        # noted when its transfer looks what is at its sender.
        for i in range(first[chunk], first[chunk + 1]):
            while landed < first[chunk + 1] and arrival[by_arrival[landed]] <= start[i]:
                j = by_arrival[landed]
                # An entry counts if it bears the number of the chunk, so that nothing is cleared in
                # between.
                known = chunk_at[dst[j]] == chunk
                alone = len(passing) > 0 and passing[j]
                if not alone and (sums[chunk] or forgets[dst[j]] or not known):
                    inputs.previous[j] = newest_at[dst[j]] if known else NONE
                    newest_at[dst[j]] = j
                    chunk_at[dst[j]] = chunk
                landed += 1
            if len(follows) > 0 and follows[i] >= 0:
                inputs.newest[i] = follows[i]
            else:
                inputs.newest[i] = newest_at[src[i]] if chunk_at[src[i]] == chunk else NONE
                if gives_away[src[i]]:
                    chunk_at[src[i]] = NONE


@kernel
def list_followers(inputs: Inputs, first: Ints, followers: Ints, missing: Ints) -> None:
    """Turn inputs round: those who wait for `i` are followers[first[i] : first[i + 1]].

    Called twice: with no room for followers it counts them (in `first`, shifted by two) and what each one waits for.
    """
    for i in range(len(inputs.newest)):
        j = inputs.newest[i]
        for _ in range(len(inputs.previous) + 1):
            if j < 0:
                break
            if len(followers) == 0:
                first[j + 2] += 1
                missing[i] += 1
            else:
                followers[first[j + 1]] = i
                first[j + 1] += 1
            j = inputs.previous[j]
        else:
            raise InternalError("the inputs of a transfer are a list without an end")


@kernel
def serve_as_planned(
    order: Ints,
    link: Indices,
    inputs: Inputs,
    hold: Ints,
    travel: Ints,
    free: Ints,
    start: Ints,
    arrival: Ints,
) -> None:
    """Each link serves its transfers in the planned order, each as soon as its inputs are there."""
    for k in range(len(order)):
        i = order[k]
        begin = free[link[i]]
        j = inputs.newest[i]
        for _ in range(len(inputs.previous) + 1):
            if j < 0:
                break
            begin = max(begin, arrival[j])
            j = inputs.previous[j]
        else:
            raise InternalError("the inputs of a transfer are a list without an end")
        start[i] = begin
        arrival[i] = begin + travel[i]
        free[link[i]] = begin + hold[i]


@kernel
def take_places(switch: Ints, until: Ints, buffer: Ints, queue: Ints, leaver: Ints) -> None:
    """Give every stay, ordered by switch and begin, the place in the buffer that became free first.

    `leaver` then names the stay that had it before. The queue holds the stays that have a place, the first to end
    first; ends are nearly in order, so a newcomer is put in from behind.
    """
    head = np.int64(0)
    tail = np.int64(0)
    for stay in range(len(switch)):
        if stay == 0 or switch[stay] != switch[stay - 1]:
            head = tail  # another switch, whose places are all empty
        leaver[stay] = NONE
        if tail - head == buffer[switch[stay]]:
            leaver[stay] = queue[head]
            head += 1
        place = tail
        while place > head and until[queue[place - 1]] > until[stay]:
            queue[place] = queue[place - 1]
            place -= 1
        queue[place] = stay
        tail += 1


@kernel
def settle(waits: Waits, missing: Ints, moment: Ints, queue: Ints) -> int:
    """Give everything the earliest moment that it may have, one after another; returns how many have got it.

    The others, which still miss something, wait for each other in a circle, or for those who do.
    """
    known = np.int64(0)
    for n in range(len(missing)):
        if missing[n] == 0:
            queue[known] = n
            known += 1
    for settled in range(len(missing)):
        if settled == known:
            break
        n = queue[settled]
        for k in range(waits.first[n], waits.first[n + 1]):
            other = waits.after[k]
            moment[other] = max(moment[other], moment[n] + waits.lag[k])
            missing[other] -= 1
            if missing[other] == 0:
                queue[known] = other
                known += 1
    return known


@kernel
def relax(waits: Waits, missing: Ints, moment: Ints, cause: Ints, seen: Ints) -> int:
    """Do the same for those who wait in circles, moving them back until all is well; returns -1.

    A lag may be negative, where a chunk sets out for a place that will be free by the time it gets there; so a circle
    need not block. One that does makes its members the causes of each other: then one of them is returned.
    """
    cause[:] = NONE
    # A moment that is moved so often has a cause that goes round in a circle.
    for _ in range(len(missing) + 1):
        moved = False
        for n in range(len(missing)):
            # All others have had their moments from `settle`, and have passed them on.
            if missing[n] > 0:
                for k in range(waits.first[n], waits.first[n + 1]):
                    other = waits.after[k]
                    earliest = moment[n] + waits.lag[k]
                    if earliest > moment[other]:
                        moment[other] = earliest
                        cause[other] = n
                        moved = True
        # Follow the causes from everywhere: who comes back to where he has been on the same walk is in a circle.
        seen[:] = 0
        for n in range(len(missing)):
            at = n
            for _ in range(len(missing)):
                if at < 0 or seen[at] != 0:
                    break
                seen[at] = n + 1
                at = cause[at]
            if at >= 0 and seen[at] == n + 1:
                return at
        if not moved:
            return NONE
    raise InternalError("moments move back without end, although nothing waits in a circle")
