"""The kinds of bounds, the best bound that they find, and the check of a certificate.

A kind is a module with three functions: `find` yields certificates, `prove` says what a certificate proves, exactly and
without any search, and `explain` says in a few words why that is so. What is found is proven before it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from pccl._arrays import Bools
from pccl.algorithm.bound import Bound, Certificate
from pccl.bounds import cover, cut, latency, prices
from pccl.bounds.case import Case
from pccl.bounds.patience import Patience
from pccl.collective import Collective, Conditions, compile_conditions
from pccl.errors import VerificationError
from pccl.topology import Topology
from pccl.units import Picoseconds


class Kind(Protocol):
    """A way to argue that no algorithm is faster."""

    def find(self, case: Case) -> Iterable[tuple[Certificate, bool]]:
        """Yield certificates, and whether each is about whole chunks; only what is found at once if that is asked."""

    def prove(self, case: Case, certificate: Certificate, whole_chunks: bool, /) -> int:
        """Return the picoseconds that any algorithm takes."""

    def explain(self, case: Case, certificate: Certificate, whole_chunks: bool, /) -> str:
        """Return why."""


KINDS: dict[str, Kind] = {"latency": latency, "cut": cut, "cover": cover, "prices": prices}


def lower_bound(
    topology: Topology,
    *collectives: Collective,
    quick: bool = False,
    time_limit: float | None = None,
) -> Bound:
    """The best bound we find for all collectives running at the same time.

    Where a collective does not say into how many chunks its data are cut, the bound holds however they are; if all of
    them say so, it is about whole chunks. A `quick` answer does without prices that have to be searched for. After
    `time_limit` seconds the best that was found by then is returned, which says that it was cut short.

    Examples
    --------
    >>> import pccl
    >>> mesh = pccl.topology.mesh(4, 4, bandwidth="1GB/s", latency="0ns")
    >>> str(pccl.lower_bound(mesh, pccl.AllToAll(size="16kB")))
    '16us, NPUs 0-7 must send 64kB over 4 links of 1GB/s'
    """
    is_free = np.array([collective.chunks is None for collective in collectives])
    # However they are cut also means: not at all.
    as_cut = [one.in_one() if one.chunks is None else one for one in collectives]
    conditions = compile_conditions(topology, as_cut)
    return bound_of(
        topology,
        conditions,
        whole_chunks=not np.any(is_free),
        quick=quick,
        cut_freely=is_free[conditions.collective],
        patience=Patience.of(time_limit),
    )


def bound_of(
    topology: Topology,
    conditions: Conditions,
    *,
    whole_chunks: bool = False,
    quick: bool = False,
    cut_freely: Bools | None = None,
    patience: Patience | None = None,
) -> Bound:
    """The best bound for these conditions.

    With `whole_chunks`, cuts count chunks as they are, which proves more but for this way to cut the data alone;
    `cut_freely` says which chunks might be cut further. A `quick` answer does without prices that have to be searched
    for. The search is over with the patience, but not before something is proven.
    """
    patience = patience or Patience()
    case = Case(topology, conditions, whole_chunks, cut_freely, quick, patience)
    found: list[Bound] = []
    for name, kind in KINDS.items():
        if _any_proof(found) and patience.ends():
            break
        for certificate, whole in kind.find(case):
            value = Picoseconds(kind.prove(case, certificate, whole))
            found.append(Bound(name, value, certificate, whole))
            if _any_proof(found) and patience.ends():
                break
    # Of equal bounds the first wins, so that people get the simplest argument.
    best = max(found, key=lambda bound: bound.value)
    reason = KINDS[best.kind].explain(case, best.certificate, best.whole_chunks)
    return replace(best, reason=reason, cut_short=patience.is_over)


def _any_proof(found: Sequence[Bound]) -> bool:
    return any(bound.value > 0 for bound in found)


def check(bound: Bound, topology: Topology, conditions: Conditions) -> None:
    """Prove a bound again from its certificate alone; raise :class:`VerificationError` if it claims more than that.

    Examples
    --------
    >>> import pccl
    >>> ring, gather = pccl.topology.ring(4), pccl.AllGather(size="4MiB")
    >>> bound = pccl.lower_bound(ring, gather)
    >>> pccl.bounds.check(bound, ring, pccl.collective.compile_conditions(ring, [gather]))
    """
    if bound.kind not in KINDS:
        raise VerificationError(f"there is no bound {bound.kind!r}; there are {', '.join(KINDS)}")
    try:
        case = Case(topology, conditions)
        proven = KINDS[bound.kind].prove(case, bound.certificate, bound.whole_chunks)
    # Certificates come from files, in which anything may stand.
    except (LookupError, OverflowError, TypeError, ValueError):
        raise VerificationError(f"the {bound.kind} bound has no valid certificate") from None
    if bound.value > proven:
        raise VerificationError(
            f"the {bound.kind} bound claims {bound.value}, but its certificate proves {Picoseconds(proven)}"
        )
