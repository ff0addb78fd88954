"""First come, first served, or the oldest first: links and switches with queues."""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints, offsets_by_owner
from pccl.algorithm import Transfers
from pccl.algorithm.queue_kernels import (
    SENT,
    Backlog,
    Queues,
    Service,
    serve_first_come,
    serve_oldest_first,
)
from pccl.algorithm.stays import find_stays
from pccl.algorithm.timing import Times, find_followers, find_inputs
from pccl.algorithm.timing_kernels import Inputs
from pccl.errors import InfeasibleError
from pccl.topology import Topology


def first_come_starts(
    transfers: Transfers, world: Topology, times: Times, inputs: Inputs | None = None
) -> Ints:
    """When transfers start if everything serves first come, first served.

    They wait for what is planned to be at their senders, unless `inputs` says for what else.

    A chunk that goes to a switch with a finite buffer first gets a place there, which it keeps until its last byte has
    been sent on. Chunks may block each other, each holding a place and waiting for another one: that is an error.
    """
    count = len(transfers)
    stays = find_stays(transfers, world)
    out, out_stay = stays.out
    into, in_stay = stays.into
    stay = np.full((count if len(stays) else 0, 2), -1, np.int32)
    stay[out, 0] = out_stay
    stay[into, 1] = in_stay
    sends = int(np.count_nonzero(stay[:, SENT] >= 0))
    wanted, granted = np.zeros((2, len(stays)), np.bool_)
    service = Service(
        *times,
        start=np.full(count, -1, np.int64),
        # At any time there is at most one event for each link, and for each arrival and sending of interest.
        heap=np.empty((count + sends + world.num_links + 2, 3), np.int64),
        events=np.zeros(2, np.int64),
        link=transfers.link,
        busy=np.zeros(world.num_links, np.bool_),
        queues=_queues(world.num_links, count),
        stay=stay,
        switch=stays.switch,
        left=np.bincount(np.concatenate([in_stay, out_stay]), minlength=len(stays)),
        previous=stays.previous,
        next=stays.next,
        wanted=wanted,
        granted=granted,
        first_transfer=np.full(len(stays), -1, np.int64),
        places=world.buffer.copy(),
        stay_queues=_queues(world.num_devices, len(stays)),
    )
    # Those that are ready at the same time are served in the planned order.
    order = np.lexsort((transfers.link, transfers.start))
    followers = find_followers(find_inputs(transfers, world) if inputs is None else inputs)
    serve_first_come(order, *followers, service)
    # Whoever never started waits for a place, directly or for one who does: nothing else waits
    # forever.
    if np.any(service.start < 0):
        switch = int(stays.switch[np.argmax(wanted & ~granted)])
        raise InfeasibleError(
            f"first come, first served, the chunks block each other in {world.device_text(switch)}: all places "
            f"in its buffer of {world.buffer[switch]} wait for room elsewhere; serve in the planned order instead"
        )
    return service.start


def oldest_first_starts(
    transfers: Transfers, world: Topology, times: Times, inputs: Inputs
) -> Ints:
    """When transfers start if links serve the first of the list among those that are ready; switches have no limits.

    So what is under way gets through before anything new is begun, as where senders wait for receivers.
    """
    count = len(transfers)
    links = world.num_links
    backlog = Backlog(
        offsets_by_owner(transfers.link, links),
        np.zeros(links, np.int64),
        np.empty((count, 3), np.int64),
    )
    start = np.full(count, -1, np.int64)
    serve_oldest_first(
        *find_followers(inputs),
        link=transfers.link,
        hold=times.hold,
        travel=times.travel,
        backlog=backlog,
        busy=np.zeros(links, np.bool_),
        # Of each transfer that has started, at most two events wait.
        events=np.empty((2 * count + 1, 3), np.int64),
        start=start,
    )
    return start


def _queues(places: int, members: int) -> Queues:
    first, last = np.full((2, places), -1, np.int64)
    return Queues(first, last, np.full(members, -1, np.int64))
