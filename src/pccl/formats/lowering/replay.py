"""How long a plan takes as messages between NPUs: the plan is replayed on links whose switches only pass messages on.

Links serve messages in the planned order, each as soon as it is there. So a plan whose switches pass messages on one by
one takes as long as planned; where they multiply or add, links to and from them carry more than planned. Where they
have room for few messages, none enters a link earlier than planned, as it would find no room.
"""

from __future__ import annotations

import numpy as np

from pccl._arrays import Ints, distinct, offsets_by_owner
from pccl.algorithm import Algorithm
from pccl.errors import InternalError
from pccl.formats.lowering.deliveries import Deliveries, follow
from pccl.formats.lowering.kernels import serve
from pccl.formats.lowering.ordering import sorted_events
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import Picoseconds

# What is not sent over any link: the moment when a batch may leave, or has arrived.
NOWHERE = -1


def lowered_time(
    algorithm: Algorithm,
    which: int | None = None,
    *,
    delivered: Deliveries | None = None,
    batch: Ints | None = None,
    queue: Ints | None = None,
) -> Picoseconds:
    """When the last message of a collective, or of all of them, has arrived.

    Parameters
    ----------
    algorithm
        What is replayed, all its collectives at once.
    which
        The collective whose time counts; by default all count.
    delivered
        What NPUs deliver to one another, if that is known already.
    batch
        Per message of the collective, a number that those of one batch share: they leave together, when all of them
        may, and are used when all of them have arrived. By default every message is by itself.
    queue
        Per message of the collective, a number that those of one queue share: they are received in the order in which
        they are sent. By default every message is by itself.

    Examples
    --------
    >>> import pccl
    >>> nvls = pccl.topology.parse_topology("switch:4,bandwidth=1GB/s,latency=0ns,multicast=yes")
    >>> spread = pccl.synthesize(nvls, pccl.Broadcast("4kB", chunks=1))
    >>> spread.duration_text, lowered_time(spread)
    ('8.00 us', Picoseconds(16000000))
    """
    sent = follow(algorithm) if delivered is None else delivered
    mine = np.ones(len(sent), np.bool_)
    if which is not None:
        mine = algorithm.conditions.collective[sent.chunk] == which
    # Those of other collectives are by themselves, with numbers behind the given ones.
    batches, queues = np.arange(len(sent)) + len(sent) * np.ones((2, 1), np.int64)
    for numbers, given in ((batches, batch), (queues, queue)):
        if given is not None:
            numbers[mine] = np.unique(given, return_inverse=True)[1]
    batches = np.unique(batches, return_inverse=True)[1]
    arrival = _replayed(algorithm.topology, sent, batches, queues, algorithm.conditions.bytes)
    return Picoseconds(arrival[mine].max(initial=0))


def _replayed(
    topology: Topology, sent: Deliveries, batch: Ints, queue: Ints, chunk_bytes: Ints
) -> Ints:
    """Per delivery: when it has arrived, in the planned order and as early as that lets it."""
    count = len(sent.links)
    owner = np.repeat(np.arange(len(sent)), np.diff(sent.link_offsets))
    first = sent.link_offsets[:-1]
    last = sent.link_offsets[1:] - 1
    batches = int(batch.max(initial=-1)) + 1
    # Behind the moments at which links are entered come those at which batches may leave, and have arrived.
    leave = count + batch
    land = count + batches + batch
    nodes = count + 2 * batches
    offsets, inputs = sent.inputs()
    inner = np.setdiff1d(np.arange(count), first, assume_unique=True)
    waits = [
        (land[inputs], np.repeat(leave, np.diff(offsets))),
        (leave, first),
        (inner - 1, inner),
        (last, land),
        *_neighbours(queue, land),
    ]
    before, after = (np.concatenate(column) for column in zip(*waits, strict=True))
    # What comes before itself waits for nothing; neighbours in a queue may be of one batch.
    apart = before != after
    before, after = before[apart], after[apart]
    # Each pair once: many messages of a batch wait for the same.
    before, after = np.divmod(distinct(before * nodes + after), max(nodes, 1))
    time = np.zeros(nodes, np.int64)
    # What a switch was to send on may have to wait for a sum that an NPU adds up instead of it.
    time[:count] = np.maximum(sent.link_starts, sent.start[owner])
    np.maximum.at(time, leave, sent.start)
    np.maximum.at(time, land, sent.arrival)
    order = sorted_events(time, before, after)
    if len(order) < nodes:
        raise InternalError("messages of the plan wait for each other in a circle")
    link = np.full(nodes, NOWHERE, np.int64)
    link[:count] = sent.links
    size = chunk_bytes[sent.chunk[owner]]
    hold, travel = np.zeros((2, nodes), np.int64)
    transmission = transmission_time(size, topology.bandwidth[sent.links])
    hold[:count] = transmission + topology.overhead[sent.links]
    travel[:count] = transmission + topology.latency[sent.links]
    by_node = np.argsort(after, kind="stable")
    arrival = np.zeros(nodes, np.int64)
    if topology.limited:
        arrival[:count] = time[:count]
    serve(
        order, link, offsets_by_owner(after, nodes), before[by_node], hold, travel,
        np.zeros(topology.num_links, np.int64), arrival,
    )  # fmt: skip
    return arrival[land]


def _neighbours(queue: Ints, land: Ints) -> list[tuple[Ints, Ints]]:
    """Pairs of which the first stands just before the second in a queue."""
    order = np.argsort(queue, kind="stable")
    same = queue[order][1:] == queue[order][:-1]
    return [(land[order[:-1][same]], land[order[1:][same]])]
