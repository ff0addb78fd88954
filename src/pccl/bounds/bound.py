"""A bound, its certificate, and the best one we find."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pccl._arrays import Bools
from pccl.bounds import proofs
from pccl.collective import Collective, Conditions, compile_conditions, format_group
from pccl.errors import VerificationError
from pccl.topology import Topology
from pccl.units import Picoseconds

__all__ = ["Bound", "bound_of", "lower_bound"]


@dataclass(frozen=True)
class Bound:
    """A time that no algorithm can beat, and why.

    Attributes
    ----------
    kind
        ``"latency"``, ``"cut"`` or ``"prices"``.
    value
        Picoseconds.
    devices
        Of a cut: the set that chunks must leave. Of a latency: where the chunk starts and where it must get to.
    chunk
        Of a latency: which chunk.
    prices
        Of prices: what a transfer costs per byte, link by link.
    whole_chunks
        Whether it holds for chunks as they are cut now; otherwise it holds however the data are cut.
    """

    kind: str
    value: Picoseconds
    devices: tuple[int, ...] = ()
    chunk: int = -1
    prices: tuple[int, ...] = ()
    whole_chunks: bool = False

    def __str__(self) -> str:
        return f"{self.value}, {self.reason}"

    @property
    def reason(self) -> str:
        """Why nobody can be faster, in a few words."""
        if self.kind == "latency":
            source, destination = self.devices
            if self.chunk < 0:
                return "as nothing has to be sent"
            return f"the way of chunk {self.chunk} from {source} to {destination}"
        if self.kind == "prices":
            return f"what chunks cost at least where {np.count_nonzero(self.prices)} links have a price"
        inside = format_group(self.devices)
        return f"what must leave devices {inside if len(inside) < 60 else inside[:57] + '...'}"

    def check(self, topology: Topology, conditions: Conditions) -> None:
        """Prove the bound again from its certificate alone; raises if it claims more than that shows."""
        if self.kind == "latency":
            cut = conditions if self.whole_chunks else _in_bytes(conditions)
            proven = proofs.latency(topology, cut, self.chunk, *self.devices)
        elif self.kind == "prices":
            proven = proofs.prices(topology, conditions, np.array(self.prices, np.int64))
        else:
            inside = np.zeros(topology.num_devices, np.bool_)
            inside[list(self.devices)] = True
            proven = (proofs.cut_of_chunks if self.whole_chunks else proofs.cut)(
                topology, conditions, inside
            )
        if self.value > proven:
            shown = Picoseconds(proven)
            raise VerificationError(
                f"the {self.kind} bound claims {self.value}, but its certificate proves {shown}"
            )


def lower_bound(topology: Topology, *collectives: Collective, quick: bool = False) -> Bound:
    """The best bound we find for all collectives running at the same time.

    Where a collective does not say into how many chunks its data are cut, the bound holds however they are. A `quick`
    answer does without prices.

    Examples
    --------
    >>> import pccl
    >>> mesh = pccl.topology.mesh(4, 4, bandwidth="1GB/s", latency="0ns")
    >>> str(pccl.lower_bound(mesh, pccl.AllToAll(size="16kB")))
    '16us, what must leave devices 0-7'
    """
    conditions = compile_conditions(topology, collectives)
    free = np.array([collective.chunks is None for collective in collectives])[
        conditions.collective
    ]
    return bound_of(topology, conditions, quick=quick, cut_freely=free)


def bound_of(
    topology: Topology,
    conditions: Conditions,
    *,
    whole_chunks: bool = False,
    quick: bool = False,
    cut_freely: Bools | None = None,
) -> Bound:
    """The best bound for these conditions.

    With `whole_chunks`, cuts count chunks as they are, which proves more but for this way to cut the data alone;
    `cut_freely` says which chunks might be cut further. A `quick` answer does without prices.
    """
    from pccl.bounds.cuts import best_cuts
    from pccl.bounds.prices import best_prices

    cuts = best_cuts(topology, conditions)
    devices = [tuple(np.flatnonzero(cut).tolist()) for cut in cuts]
    found = [
        _latency_bound(
            topology,
            conditions,
            whole_chunks=True,
            among=None if cut_freely is None else ~cut_freely,
        )
    ]
    if cut_freely is not None and np.any(cut_freely):
        found.append(_latency_bound(topology, _in_bytes(conditions), whole_chunks=False))
    found += [Bound("cut", Picoseconds(proofs.cut(topology, conditions, cuts[0])), devices[0])]
    if whole_chunks:
        for cut, inside in zip(cuts, devices, strict=True):
            value = Picoseconds(proofs.cut_of_chunks(topology, conditions, cut))
            found.append(Bound("cut", value, inside, whole_chunks=True))
    if not quick:
        price = best_prices(topology, conditions, cuts[0])
        value = Picoseconds(proofs.prices(topology, conditions, price))
        found.append(Bound("prices", value, prices=tuple(price.tolist())))
    return max(found, key=lambda bound: bound.value)


def _latency_bound(
    topology: Topology, conditions: Conditions, whole_chunks: bool, among: Bools | None = None
) -> Bound:
    value, chunk, ends = proofs.longest_way(topology, conditions, among)
    return Bound("latency", Picoseconds(value), ends, chunk, whole_chunks=whole_chunks)


def _in_bytes(conditions: Conditions) -> Conditions:
    """The first byte of every chunk, which is on its way for as long as the smallest piece could be."""
    return replace(conditions, bytes=np.ones(len(conditions), np.int64))
