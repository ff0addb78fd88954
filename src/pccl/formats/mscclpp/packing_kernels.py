"""Compiled loops over the batches of a plan."""

from __future__ import annotations

from pccl._arrays import Ints
from pccl._kernels import kernel
from pccl.errors import InternalError


@kernel
def fill_streams(
    pair: Ints, arrival: Ints, sending: Ints, receiving: Ints, room: Ints, cheapest: int,
    oldest: Ints, younger: Ints, costs: Ints, last: Ints, stream_of: Ints,
) -> int:  # fmt: skip
    """Put every batch, in the order given, into the oldest open stream of its pair that it fits into, or a new one.

    In a stream, batches arrive in the order in which they are sent, and the costs at both ends stay within the room. A
    stream into which not even the cheapest batch fits is closed. The open streams of a pair begin with its `oldest`,
    and each is followed by the next `younger`. Returns how many streams there are.
    """
    count = 0
    for i in range(len(pair)):
        p, before, stream = pair[i], -1, oldest[pair[i]]
        # The first that has room at both ends, and whose last batch arrives earlier than this one.
        for _ in range(count + 1):
            if stream < 0:
                break
            fits = (
                costs[stream, 0] + sending[i] <= room[i]
                and costs[stream, 1] + receiving[i] <= room[i]
            )
            if fits and last[stream] < arrival[i]:
                break
            before, stream = stream, younger[stream]
        else:
            raise InternalError("the open streams of two ranks are a list without an end")
        # A new stream is the youngest of its pair.
        if stream < 0:
            stream = count
            count += 1
            costs[stream, 0], costs[stream, 1], younger[stream] = 0, 0, -1
            if before < 0:
                oldest[p] = stream
            else:
                younger[before] = stream
        costs[stream, 0] += sending[i]
        costs[stream, 1] += receiving[i]
        last[stream], stream_of[i] = arrival[i], stream
        # Full: take it out of the list, so that nobody looks at it again.
        if max(costs[stream, 0], costs[stream, 1]) + cheapest > room[i]:
            if before < 0:
                oldest[p] = younger[stream]
            else:
                younger[before] = younger[stream]
    return count
