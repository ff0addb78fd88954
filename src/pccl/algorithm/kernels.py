"""Compiled loops of the verifier."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pccl._arrays import Bits, Bools, Indices, Ints
from pccl._kernels import kernel
from pccl.errors import InternalError

# What may be wrong.
FINE = 0
SENDER_HAS_NONE = 1
NOT_DELIVERED = 2
COUNTED_TWICE = 3
OVERWRITTEN = 4
INCOMPLETE = 5


class Moves(NamedTuple):
    """The transfers: those of chunk `c` are rows ``first[c]`` to ``first[c + 1] - 1``, by start."""

    first: Ints
    src: Indices
    dst: Indices
    start: Ints
    arrival: Ints
    reduce: Bools


@kernel
def first_overlap(order: Ints, link: Indices, start: Ints, hold: Ints) -> int:
    """Position in the order, by link and start, of the first transfer that begins while its link is held; or -1."""
    # As long as nothing overlaps, ends are in the order of starts: so only the transfer just before
    # can still hold the link.
    for k in range(1, len(order)):
        i = order[k]
        before = order[k - 1]
        if link[i] == link[before] and start[i] < start[before] + hold[before]:
            return k
    return -1


@kernel
def check_copies(
    moves: Moves,
    follows: Indices,
    passing: Bools,
    chunks: Ints,
    source: Ints,
    wanted_first: Ints,
    wanted: Indices,
    since: Ints,
    seen: Ints,
) -> tuple[int, int, int]:
    """Follow chunks that do not reduce.

    Returns what is wrong; the transfer and since when its sender has the chunk (-1 if never), or the chunk and device.
    """
    for k in range(len(chunks)):
        chunk = chunks[k]
        # A device has the chunk, `since` some moment, if it was `seen` with this mark: nothing is cleared in between.
        mark = k + 1
        seen[source[k]] = mark
        since[source[k]] = 0
        # Every transfer takes some time, so what its sender needs has started before it and has
        # been seen.
        for i in range(moves.first[chunk], moves.first[chunk + 1]):
            src = moves.src[i]
            dst = moves.dst[i]
            # A message that is passed on has been followed so far already.
            if follows[i] < 0:
                if seen[src] != mark:
                    return SENDER_HAS_NONE, i, -1
                if since[src] > moves.start[i]:
                    return SENDER_HAS_NONE, i, since[src]
            if passing[i]:
                continue
            # A chunk may come more than once; a device has it from the first time on.
            if seen[dst] != mark or since[dst] > moves.arrival[i]:
                seen[dst] = mark
                since[dst] = moves.arrival[i]
        for i in range(wanted_first[chunk], wanted_first[chunk + 1]):
            if seen[wanted[i]] != mark:
                return NOT_DELIVERED, chunk, wanted[i]
    return FINE, -1, -1


@kernel
def check_sums(
    moves: Moves, follows: Indices, passing: Bools, gives_away: Bools, by_arrival: Ints,
    chunks: Ints, source_first: Ints, source: Indices, wanted_first: Ints,
    wanted: Indices, held: Bits, flying: Bits, full: Bits,
) -> tuple[int, int, int]:  # fmt: skip
    """Follow chunks that reduce, as sets of contributions (one bit each). Returns as `check_copies` does.

    A device that cannot multiply gives away what it sends; a message that is passed on carries what it carried before.
    """
    for k in range(len(chunks)):
        chunk = chunks[k]
        held[:] = 0
        full[:] = 0
        for i in range(source_first[chunk], source_first[chunk + 1]):
            n = i - source_first[chunk]
            bit = np.uint64(1) << np.uint64(n & 63)
            held[source[i], n >> 6] |= bit
            full[n >> 6] |= bit
        first = moves.first[chunk]
        last = moves.first[chunk + 1]
        # Two queues in the order of time. At the same moment arrivals come first: what arrives can be sent on at once.
        leaving = first
        landing = first
        for _ in range(2 * (last - first) + 1):
            if landing == last:
                break
            lands = by_arrival[landing]
            if leaving < last and moves.start[leaving] < moves.arrival[lands]:
                anything = np.uint64(0)
                sender = moves.src[leaving]
                for w in range(len(full)):
                    if follows[leaving] >= 0:
                        flying[leaving - first, w] = flying[follows[leaving] - first, w]
                    else:
                        # It carries what its sender has now, whatever is added there while it is under
                        # way.
                        flying[leaving - first, w] = held[sender, w]
                        if gives_away[sender]:
                            held[sender, w] = 0
                    anything |= flying[leaving - first, w]
                if anything == 0:
                    return SENDER_HAS_NONE, leaving, -1
                leaving += 1
                continue
            dst = moves.dst[lands]
            if passing[lands]:
                landing += 1
                continue
            for w in range(len(full)):
                new = flying[lands - first, w]
                old = held[dst, w]
                # Adding needs sums that have nothing in common, as nothing can be taken out of a
                # sum again. A copy takes the place of what is held, so all of that must be in it.
                if moves.reduce[lands]:
                    if new & old != 0:
                        return COUNTED_TWICE, lands, w * 64 + lowest_bit(new & old)
                    held[dst, w] = new | old
                else:
                    if old & ~new != 0:
                        return OVERWRITTEN, lands, w * 64 + lowest_bit(old & ~new)
                    held[dst, w] = new
            landing += 1
        else:
            raise InternalError("a chunk leaves or lands more often than it has transfers")
        for i in range(wanted_first[chunk], wanted_first[chunk + 1]):
            for w in range(len(full)):
                if held[wanted[i], w] != full[w]:
                    return INCOMPLETE, chunk, wanted[i]
    return FINE, -1, -1


@kernel
def find_needs(
    moves: Moves, follows: Indices, passing: Bools, gives_away: Bools, able: Bools, by_arrival: Ints,
    chunks: Ints, source_first: Ints, source: Indices, held: Bits, flying: Bits,
    came: Ints, came_before: Ints, used: Bools, rest: Bits,
) -> tuple[bool, bool]:  # fmt: skip
    """Whether some switch multiplies, and whether some switch adds, in a plan that is correct.

    What came to a switch is a list, the last first: `came`, then `came_before`; it is `used` once it has left again.
    """
    multiplies = False
    adds = False
    for k in range(len(chunks)):
        chunk = chunks[k]
        held[:] = 0
        came[:] = -1
        for i in range(source_first[chunk], source_first[chunk + 1]):
            n = i - source_first[chunk]
            held[source[i], n >> 6] |= np.uint64(1) << np.uint64(n & 63)
        first = moves.first[chunk]
        last = moves.first[chunk + 1]
        # As they are checked above: what arrives at some moment can be sent on at once.
        leaving = first
        landing = first
        for _ in range(2 * (last - first) + 1):
            if leaving == last:
                break
            lands = by_arrival[landing]
            if moves.arrival[lands] <= moves.start[leaving]:
                landing += 1
                if passing[lands]:
                    continue
                dst = moves.dst[lands]
                for w in range(held.shape[1]):
                    kept = held[dst, w] if moves.reduce[lands] else np.uint64(0)
                    held[dst, w] = kept | flying[lands - first, w]
                used[lands - first] = False
                came_before[lands - first] = came[dst]
                came[dst] = lands - first
                continue
            sender = moves.src[leaving]
            sent = leaving - first
            for w in range(held.shape[1]):
                if follows[leaving] >= 0:
                    flying[sent, w] = flying[follows[leaving] - first, w]
                    continue
                flying[sent, w] = held[sender, w]
                if gives_away[sender]:
                    held[sender, w] = 0
            if able[sender] and follows[leaving] < 0:
                again, several = _left_as(sent, came[sender], flying, came_before, used, rest)
                multiplies |= again
                adds |= several
                if multiplies and adds:
                    return multiplies, adds
            leaving += 1
        else:
            raise InternalError("a chunk leaves or lands more often than it has transfers")
    return multiplies, adds


@kernel
def _left_as(
    sent: int, last_came: int, flying: Bits, came_before: Ints, used: Bools, rest: Bits
) -> tuple[bool, bool]:
    """Whether what a switch sends has left it before, and whether it is the sum of several messages that came."""
    came_like_that = False
    one = last_came
    for _ in range(len(came_before) + 1):
        if one < 0:
            break
        if _is_in(flying[one], flying[sent]) and _is_in(flying[sent], flying[one]):
            came_like_that = True
            if not used[one]:
                used[one] = True
                return False, False
        one = came_before[one]
    else:
        raise InternalError("what came to a switch is a list without an end")
    for w in range(len(rest)):
        rest[w] = flying[sent, w]
    one = last_came
    for _ in range(len(came_before) + 1):
        if one < 0:
            break
        if not used[one] and _is_in(flying[one], rest):
            used[one] = True
            for w in range(len(rest)):
                rest[w] &= ~flying[one, w]
        one = came_before[one]
    else:
        raise InternalError("what came to a switch is a list without an end")
    left_before = False
    for w in range(len(rest)):
        left_before |= rest[w] != 0
    return left_before, not came_like_that


@kernel
def _is_in(part: Bits, whole: Bits) -> bool:
    """Whether a set of contributions is part of another."""
    is_in = True
    for w in range(len(part)):
        is_in &= part[w] & ~whole[w] == 0
    return is_in


@kernel
def lowest_bit(word: int) -> int:
    """Position of the lowest bit that is set."""
    for position in range(64):
        if (word >> np.uint64(position)) & np.uint64(1) != 0:
            return position
    raise InternalError("the lowest bit is sought of a word that has none")
