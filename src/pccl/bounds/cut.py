"""Cuts: what must leave a set of devices takes the time that the links out of it need.

The certificate is the set; it may name sources or destinations, and is then about what goes from or to these alone. A
link out of the set opens when the first byte can be there, and closes when the last can only just get to where it must.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pccl._arrays import Bools, Ints, take_rows
from pccl.algorithm.bound import Certificate
from pccl.bounds.case import Case
from pccl.bounds.windows import Windows, links_text, time_to_fill
from pccl.collective import format_group
from pccl.network import network, unloaded_times
from pccl.units import Bytes, Picoseconds

# With more devices, the way to each destination by itself is not looked at.
MOST_DEVICES = 512
# Sets and ends that are proven, of those that look best.
MOST_PROVEN = 3


def find(case: Case) -> Iterator[tuple[Certificate, bool]]:
    """Yield the narrowest set, and those that look best once the ways to and from them count."""
    sets = [tuple(np.flatnonzero(inside).tolist()) for inside in case.cuts]
    yield {"devices": sets[0]}, False
    size = _smallest(case) if case.whole_chunks else 1
    looks = _Looks(case, size)
    ranked: dict[tuple[tuple[str, tuple[int, ...]], ...], float] = {}
    for inside in case.cuts:
        if ranked and case.patience.ends():
            break
        for certificate, value in looks.at(inside):
            ranked[tuple(certificate.items())] = value
    best = sorted(ranked, key=lambda key: -ranked[key])
    for items in best[:MOST_PROVEN]:
        yield dict(items), False
    if case.whole_chunks:
        for items in best[: 2 * MOST_PROVEN]:
            yield dict(items), True
        for devices in sets:
            yield {"devices": devices}, True


def prove(case: Case, certificate: Certificate, whole_chunks: bool) -> int:
    """Picoseconds that what must leave the set needs at least."""
    crossing = _crossing(case, certificate, whole_chunks)
    if crossing is None:
        return 0
    windows, crosses, leaving = crossing
    size = int(leaving.min())
    # With a price of one on every link out of the set, what links earn is what they carry away.
    time = windows.time_to_earn(int(leaving.sum()), crosses)
    if not whole_chunks:
        return time
    # No chunk takes less time than the smallest, so counting all as that small proves nothing
    # wrong.
    return max(time, windows.time_for_chunks(len(leaving), size, crosses))


def explain(case: Case, certificate: Certificate, whole_chunks: bool) -> str:
    """Who must send or receive how much over which links, and when the first of it can arrive."""
    crossing = _crossing(case, certificate, whole_chunks)
    if crossing is None:
        return "as nothing has to be sent"
    windows, crosses, leaving = crossing
    inside = np.zeros(case.topology.num_devices, np.bool_)
    inside[list(certificate["devices"])] = True
    out = np.flatnonzero(crosses & windows.useful)
    npus = case.topology.npus
    # Whichever side has fewer NPUs is the one to speak of.
    sends = 2 * np.count_nonzero(inside[npus]) <= len(npus)
    who = format_group(npus[inside[npus] == sends].tolist()) or format_group(certificate["devices"])
    if len(who) >= 60:
        who = who[:57] + "..."
    noun = "NPU" if who.isdigit() else "NPUs"
    verb = "send" if sends else "receive"
    text = f"{noun} {who} must {verb} {Bytes(leaving.sum())}{_ends(certificate)} over {links_text(case.topology, out)}"
    lost = Picoseconds(windows.lost[out].min())
    return f"{text}, the first byte of which arrives after {lost}" if lost else text


def _ends(certificate: Certificate) -> str:
    """What the certificate is about if not about everything."""
    text = ""
    for word, side in (("from", "sources"), ("for", "destinations")):
        if side in certificate:
            text += f" {word} NPU {format_group(certificate[side])}"
    return text


def _crossing(
    case: Case, certificate: Certificate, whole_chunks: bool
) -> tuple[Windows, Bools, Ints] | None:
    """When links can carry something out of the set, which of them lead out, and the bytes of each chunk that leaves.

    None if there are no such links or chunks.
    """
    topology = case.topology
    case = case.only(certificate)
    inside = np.zeros(topology.num_devices, np.bool_)
    inside[list(certificate["devices"])] = True
    crosses = inside[topology.src] & ~inside[topology.dst]
    leaves = case.going(inside, ~inside)
    if not np.any(crosses) or not np.any(leaves):
        return None
    c = case.conditions
    chunks = np.flatnonzero(leaves)
    _, sources = take_rows(c.source_offsets, c.source_ids, chunks)
    _, targets = take_rows(c.destination_offsets, c.destination_ids, chunks)
    leaving = c.bytes[chunks]
    # However finely data are cut, a byte takes its time.
    size = int(leaving.min()) if whole_chunks else 1
    windows = case.windows(size, sources[inside[sources]], targets[~inside[targets]])
    return windows, crosses, leaving


def _smallest(case: Case) -> int:
    """Bytes of the smallest chunk that has to get anywhere."""
    return int(case.conditions.bytes[case.conditions.num_destinations > 0].min(initial=2**62))


class _Looks:
    """How much sets seem to prove with all ends, for each destination alone, and for one source and destination."""

    def __init__(self, case: Case, size: int) -> None:
        self.case = case
        self.times: Ints | None = None
        devices = case.topology.num_devices
        if devices <= MOST_DEVICES and np.any(case.conditions.num_destinations):
            net = network(case.topology, np.array([size]))
            everybody = np.arange(devices)
            self.times = unloaded_times(net, everybody, np.zeros_like(everybody)) * net.unit

    def at(self, inside: Bools) -> Iterator[tuple[Certificate, float]]:
        """Yield certificates with this set, and about what they prove."""
        topology = self.case.topology
        crosses = inside[topology.src] & ~inside[topology.dst]
        out = np.flatnonzero(crosses)
        if self.times is None or not len(out):
            return
        demand = self.case.demand
        devices = tuple(np.flatnonzero(inside).tolist())
        amount = demand.from_one_to_one * inside[:, None] * ~inside
        sources = np.flatnonzero(amount.any(axis=1))
        targets = np.flatnonzero(amount.any(axis=0))
        if not len(sources):
            return
        before = self.times[np.ix_(sources, topology.src[out])].astype(np.float64)
        after = self.times[np.ix_(topology.dst[out], targets)].astype(np.float64)
        rate = self.case.link_rates[out]
        fixed = topology.latency[out] - topology.overhead[out]
        open_from = before.min(axis=0) + fixed
        value = time_to_fill(
            demand.leaving(inside[None].astype(np.float32)),
            rate,
            (open_from + after.min(axis=1))[:, None],
        )
        yield {"devices": devices}, float(value[0])
        # For each destination alone, and then, for the best of them, from each source alone.
        to_each = demand.to_each(inside)[targets]
        values = time_to_fill(to_each, rate, open_from[:, None] + after)
        best = int(values.argmax())
        target = int(targets[best])
        yield {"devices": devices, "destinations": (target,)}, float(values[best])
        pairs = time_to_fill(
            amount[sources, target], rate, (before + fixed).T + after[:, best][:, None]
        )
        best = int(pairs.argmax())
        ends = {"sources": (int(sources[best]),), "destinations": (target,)}
        yield {"devices": devices, **ends}, float(pairs[best])
        from_each = demand.from_each(~inside)[sources]
        values = time_to_fill(from_each, rate, (before + fixed).T + after.min(axis=1)[:, None])
        best = int(values.argmax())
        yield {"devices": devices, "sources": (int(sources[best]),)}, float(values[best])
