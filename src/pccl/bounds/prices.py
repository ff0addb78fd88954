"""Prices: whatever links cost, chunks pay for their cheapest ways, and links earn no more than they carry.

The certificate is a price per byte for every link. Time is what chunks must pay at least, over what all links together
can earn at most while they carry something without a pause.

The best prices are the dual of routing everything with the least congestion: a linear program, which HiGHS solves where
it is small. Where it is not, prices rise again and again where cheapest ways meet (multiplicative weights).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from pccl._arrays import Floats, Ints
from pccl.algorithm.bound import Certificate
from pccl.bounds.case import Case, Members, Share
from pccl.bounds.messages import FAR, Messages
from pccl.bounds.rising import by_program, by_rising, by_trees, whole
from pccl.bounds.sets import box_labels
from pccl.bounds.windows import links_text
from pccl.network import price_table
from pccl.topology import Topology
from pccl.units import Bytes, Picoseconds, counted

# With more devices, prices do not rise with what trees load.
MOST_DEVICES = 128

# Rows of the linear program, which then takes about a second.
SMALL_LP = 20_000


def find(case: Case) -> Iterator[tuple[Certificate, bool]]:
    """Yield prices that may prove much: simple ones, and the best for what goes from one device to one other.

    The links that leave the narrowest cut are a start.
    """
    if not case.topology.num_links:  # a single NPU has nothing to pay for
        return
    several = any(case.several_ends())
    if case.quick:
        # Cuts alone know little about sums that all need.
        few = case.topology.num_devices <= MOST_DEVICES
        if several and few and np.any(case.conditions.reduces):
            yield from _certificates(_prices_of_messages(case))
        return
    found = list(_simple_prices(case))
    # What has several ends is left out: cuts know more about it.
    topology = case.topology
    rate = case.link_rates
    demand = case.single_ends.astype(np.float64)
    np.fill_diagonal(demand, 0)
    if np.any(demand):
        demand /= demand.max()
        senders = np.count_nonzero(demand.sum(axis=1))
        if senders * topology.num_links <= SMALL_LP:
            found.append(by_program(topology, demand, rate, case.patience))
        else:
            found.append(by_rising(topology, demand, rate, _crossing(case), case.patience))
    # Of copies, cuts know all there is to know, unless switches cannot multiply them.
    matters = topology.plain or np.any(case.conditions.reduces)
    if several and matters and topology.num_devices <= MOST_DEVICES:
        found.append(by_trees(case, found))
    yield from _certificates(found)


def _certificates(found: Iterable[Floats]) -> Iterator[tuple[Certificate, bool]]:
    # Several may come to the same.
    for price in dict.fromkeys(tuple(whole(price).tolist()) for price in found):
        yield {"prices": price}, False


def _crossing(case: Case) -> Floats:
    """One for the links that leave the narrowest cut."""
    cut = case.cuts[0]
    return (cut[case.topology.src] & ~cut[case.topology.dst]).astype(np.float64)


def _simple_prices(case: Case) -> Iterator[Floats]:
    """Prices that are easy to think of."""
    topology = case.topology
    useful = case.ways_of_a_byte.useful.astype(np.float64)
    is_end = np.zeros(topology.num_devices, np.bool_)
    is_end[case.conditions.source_ids] = True
    is_end[case.conditions.destination_ids] = True
    yield useful
    yield useful * (is_end[topology.src] | is_end[topology.dst])
    yield _crossing(case)
    yield useful / np.maximum(case.link_rates, 1e-300)
    if any(case.several_ends()):
        yield from _prices_of_messages(case)


def _prices_of_messages(case: Case) -> Iterator[Floats]:
    """Prices such that all messages cost the same, and the same between boxes alone, for boxes of every speed."""
    topology = case.topology
    useful = case.ways_of_a_byte.useful
    of_message = useful / _links_of_message(topology)
    yield of_message
    for label in box_labels(topology):
        between = of_message * (label[topology.src] != label[topology.dst])
        if np.any(between):
            yield between


def _links_of_message(topology: Topology) -> Floats:
    """Per link: how many links the shortest message over it takes."""
    hops = []
    for start, end in ((topology.src, topology.dst), (topology.dst, topology.src)):
        count = np.where(topology.multicast | topology.reduce, 0, topology.num_devices)
        for _ in range(len(topology.switches)):
            before = count.copy()
            np.minimum.at(count, end, count[start] + 1)
            if np.array_equal(count, before):
                break
        hops.append(count)
    return (hops[0][topology.src] + 1 + hops[1][topology.dst]).astype(np.float64)


def prove(case: Case, certificate: Certificate, _whole_chunks: bool) -> int:
    """Picoseconds in which links can earn, at these prices per byte, what the chunks must pay at least.

    That holds however data are cut.
    """
    given = certificate["prices"]
    # The dearest way of all must still fit an int64, and be shorter than none.
    if len(given) != case.topology.num_links or min(given, default=0) < 0 or sum(given) >= FAR:
        return 0
    price = np.array(given, np.int64)
    return case.ways_of_a_byte.time_to_earn(_least_cost(case, price), price)


def explain(case: Case, certificate: Certificate, _whole_chunks: bool) -> str:
    """What has to pass over links of the same price; else how many links have one."""
    price = np.array(certificate["prices"], np.int64)
    dear = np.flatnonzero(price)
    if not np.all(price[dear] == price.max()):
        return f"what chunks cost at least where a price is on {counted(len(dear), 'link')}"
    carried = Bytes(_least_cost(case, price) // int(price.max()))
    windows = case.ways_of_a_byte
    lost = Picoseconds(windows.lost[dear[windows.useful[dear]]].min())
    text = f"{links_text(case.topology, dear)} must carry {carried} in all"
    return f"{text}, the first byte of which arrives after {lost}" if lost else text


def _least_cost(case: Case, price: Ints) -> int:
    topology = case.topology
    distance = price_table(topology, price)
    single = case.single_ends
    total = 0
    if np.any(single):
        # Python's integers, as bytes times prices need not fit 64 bits.
        total = int((single.astype(object) * np.where(single > 0, distance, 0)).sum())
    messages: dict[bool, Messages] = {}
    # Shares that need the same messages are many; so are those of an All-Reduce, which have the same ends.
    across: dict[Members, int] = {}
    known: dict[Members, int] = {}
    for share in case.several_ends():
        ends = share.sources.tobytes(), share.destinations.tobytes(), share.reduces
        if ends not in known:
            if share.reduces not in messages:
                messages[share.reduces] = Messages.at(topology, price, share.reduces)
            sent = messages[share.reduces]
            if share.members not in across:
                across[share.members] = sent.least_cost(share.sources, share.destinations)
            # It has to reach its farthest destination, it has to pass the links at its ends, and it has to cross
            # between parts. Each of these costs is certain, but they may be for the same links: so the largest counts,
            # not their sum.
            way = int(distance[np.ix_(share.sources, share.destinations)].max())
            known[ends] = max(way, across[share.members], _cost_at_ends(sent, share))
        total += share.bytes * known[ends]
    return total


def _cost_at_ends(messages: Messages, share: Share) -> int:
    """What a share pays for entering all its destinations and leaving all its contributors, each at least once.

    The first device to hold a sum with several destinations is none of those that wait for it, and need not send its
    own contribution. Until then every other contributor has sent, and after that every other destination receives: two
    messages for each member but one.
    """
    enter = messages.enter[share.destinations]
    if not share.reduces:
        return int(enter.sum())
    if len(share.destinations) == 1:
        others = share.sources != share.destinations[0]
        return int(messages.leave[share.sources[others]].sum())
    leave = messages.leave[share.sources]
    return int(enter.sum() - enter.max() + leave.sum() - leave.max())
