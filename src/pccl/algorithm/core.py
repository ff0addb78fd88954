"""The collective algorithm: every transfer of every chunk, in columns. It does not know how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pccl._arrays import Bools, Column, Floats, Indices, Ints, inverse, stable_order
from pccl._version import __version__
from pccl.algorithm.bound import Bound
from pccl.collective import Collective, Conditions, compile_conditions
from pccl.errors import PcclError, VerificationError
from pccl.topology import Topology
from pccl.topology.core import transmission_time
from pccl.units import Picoseconds, counted, size_text, time_text

# What switches do for those who need it.
_WORK = {
    ("multicast",): "multiply messages (multicast)",
    ("reduce",): "add messages up (reduce)",
    ("multicast", "reduce"): "multiply messages (multicast) and add them up (reduce)",
}
_BRIEFLY = {"multicast": "multiply", "reduce": "add"}


@dataclass(frozen=True)
class Provenance:
    """Where an algorithm comes from.

    Attributes
    ----------
    method, seed
        What found it, and what broke ties.
    seconds
        How long the search took, without those for which kernels were compiled.
    version
        Of pccl.
    cut_short
        Whether a limit or Ctrl-C ended the search before its time. If not, the same seed gives the same algorithm.
    """

    method: str = "unknown"
    seed: int = 0
    seconds: float = 0.0
    version: str = __version__
    cut_short: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Transfers:
    """One row per transfer (one chunk over one link at one time), ordered by chunk, start and link.

    Attributes
    ----------
    chunk, link
        Row of the conditions, and link of the topology.
    start
        When the first byte enters the link, in picoseconds.
    reduce
        Whether the receiver adds the chunk to what it holds; otherwise it keeps a copy.
    follows
        The transfer that brought the message that this one sends on, where a switch passes messages on one by one; -1
        elsewhere. Empty if no switch does so.
    """

    topology: Topology
    conditions: Conditions
    chunk: Indices
    link: Indices
    start: Ints
    reduce: Bools
    follows: Indices

    @classmethod
    def of(
        cls,
        topology: Topology,
        conditions: Conditions,
        chunk: ArrayLike,
        link: ArrayLike,
        start: ArrayLike,
        reduce: ArrayLike = False,
        follows: ArrayLike | None = None,
    ) -> Transfers:
        """Return transfers in order; columns may come in any order, and `reduce` once for all of them.

        Without `follows`, switches that pass messages on do so first in, first out.
        """
        given = {"chunk": chunk, "link": link, "start": start}
        columns = [_whole_numbers(values, name) for name, values in given.items()]
        added = np.asarray(reduce)
        columns.append(added if added.ndim else np.broadcast_to(added, columns[0].shape))
        if len({column.shape for column in columns}) != 1:
            lengths = [column.size for column in columns]
            raise VerificationError(f"transfer columns differ in length: {lengths}")
        # Before they become 32 bits wide, where a wrong number could turn into a right one.
        _refuse_unknown(columns[0], "chunk", len(conditions))
        _refuse_unknown(columns[1], "link", topology.num_links)
        dtypes = (np.int32, np.int32, np.int64, np.bool_)
        columns = list(map(np.ascontiguousarray, columns, dtypes))
        order = _order_of(columns[0], columns[1], columns[2], len(conditions))
        if order is not None:
            columns = [column[order] for column in columns]
        if not topology.plain:
            columns.append(np.empty(0, np.int32))
        elif follows is None:
            unknown = columns[0]  # of the right length; nothing asks for it yet
            columns.append(_first_in_first_out(cls(topology, conditions, *[*columns, unknown])))
        else:
            columns.append(_renumbered(follows, order, len(columns[0])))
        # Views are made read-only, so that the columns of the caller stay as they are.
        columns = [column.view() for column in columns]
        for column in columns:
            column.setflags(write=False)
        return cls(topology, conditions, *columns)

    def timed(self, start: Ints) -> Transfers:
        """Return the same transfers with other starts."""
        follows = self.follows if self.topology.plain else None
        return Transfers.of(
            self.topology, self.conditions, self.chunk, self.link, start, self.reduce, follows
        )

    def of_chunks(self, kept: Bools) -> Transfers:
        """Return the transfers of some chunks, which keep their numbers."""
        rows = np.flatnonzero(kept[self.chunk])
        follows = None
        if self.topology.plain:
            place = np.full(len(self) + 1, -1)
            place[rows] = np.arange(len(rows))
            # What follows nothing stays so: -1 is the last place, which is no row.
            follows = place[self.follows[rows]]
        return Transfers.of(
            self.topology,
            self.conditions,
            self.chunk[rows],
            self.link[rows],
            self.start[rows],
            self.reduce[rows],
            follows,
        )

    def __len__(self) -> int:
        return len(self.chunk)

    def __repr__(self) -> str:
        return f"Transfers({counted(len(self), 'transfer')} of {counted(len(self.conditions), 'chunk')})"

    # Derived columns are computed once, when somebody first asks for them.

    @cached_property
    def src(self) -> Indices:
        """Sending device."""
        return self.topology.src[self.link]

    @cached_property
    def dst(self) -> Indices:
        """Receiving device."""
        return self.topology.dst[self.link]

    @cached_property
    def bytes(self) -> Ints:
        """Size of the chunk."""
        return self.conditions.bytes[self.chunk]

    @cached_property
    def transmission(self) -> Ints:
        """Time from the first byte to the last, without latency."""
        sizes, size_of = self.conditions.sizes
        rates, rate_of = self.topology.rates
        # Sizes and rates are few where transfers are many: each pair of them is divided once.
        table: Ints = transmission_time(sizes[:, None], rates[None, :])
        # The usual cases do not look up every transfer twice.
        if table.size == 1:
            return np.full(len(self), table[0, 0])
        if len(sizes) == 1:
            of_rate: Ints = table[0]
            return of_rate[rate_of[self.link]]
        return table[size_of[self.chunk], rate_of[self.link]]

    @cached_property
    def hold(self) -> Ints:
        """For how long the link carries nothing else: the transmission, the gap, on exclusive links the latency."""
        if not np.any(self.topology.overhead):
            return self.transmission
        return self.transmission + self.topology.overhead[self.link]

    @cached_property
    def arrival(self) -> Ints:
        """When the receiver has the whole chunk."""
        return self.start + self.topology.latency[self.link] + self.transmission

    @property
    def first_in_first_out(self) -> bool:
        """Whether switches that pass messages on keep the order of the messages of a chunk."""
        return not self.topology.plain or np.array_equal(self.follows, _first_in_first_out(self))

    @cached_property
    def comes_to_pass(self) -> Bools:
        """Whether the receiver is a switch that passes this message on as it is."""
        return self._passes(self.dst)

    @cached_property
    def passes_on(self) -> Bools:
        """Whether the sender is a switch that passes this message on as it came."""
        return self._passes(self.src)

    def _passes(self, device: Indices) -> Bools:
        """A switch passes partial sums on if it cannot add them, and anything else if it cannot multiply it."""
        topology = self.topology
        return np.where(self.reduce, ~topology.reduce[device], ~topology.multicast[device])

    @cached_property
    def link_busy(self) -> Ints:
        """Per link of the topology: for how long it is held in all."""
        # NumPy adds weights up as floats, which is exact up to 2**53 ps, two and a half hours on a
        # link.
        return np.bincount(self.link, self.hold, self.topology.num_links).astype(np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class Algorithm:
    """A collective algorithm: which chunk goes over which link when.

    Build one from columns with :meth:`build`; :func:`pccl.synthesize` does, and so do importers and baselines.

    Attributes
    ----------
    topology, collectives
        What was asked for.
    transfers
        What was found.
    provenance
        How it was found.
    bound
        A time that no algorithm for this can beat, if one was proven when it was found.
    """

    topology: Topology
    collectives: tuple[Collective, ...]
    transfers: Transfers
    provenance: Provenance = field(default_factory=Provenance)
    bound: Bound | None = None

    @classmethod
    def build(
        cls,
        topology: Topology,
        collectives: Sequence[Collective],
        chunk: ArrayLike,
        link: ArrayLike,
        start: ArrayLike,
        reduce: ArrayLike = False,
        *,
        follows: ArrayLike | None = None,
        provenance: Provenance | None = None,
        bound: Bound | None = None,
        conditions: Conditions | None = None,
    ) -> Algorithm:
        """Put transfers in order and join them with what they are for; columns may come in any order."""
        if conditions is None:
            conditions = compile_conditions(topology, collectives)
        transfers = Transfers.of(topology, conditions, chunk, link, start, reduce, follows)
        return cls(topology, tuple(collectives), transfers, provenance or Provenance(), bound)

    @property
    def conditions(self) -> Conditions:
        """What every chunk starts from and where it must end."""
        return self.transfers.conditions

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """What switches must do for it besides passing messages on: ``"multicast"``, ``"reduce"``, both or neither."""
        from pccl.algorithm.needs import needs_of_switches

        return needs_of_switches(self.transfers)

    @cached_property
    def duration(self) -> Picoseconds:
        """When the last chunk arrives."""
        return Picoseconds(self.transfers.arrival.max(initial=0))

    @property
    def gap(self) -> float | None:
        """By which share the duration exceeds the bound: 0.05 for 5 %; None without a bound."""
        if self.bound is None:
            return None
        if not self.bound.value:
            return 0.0
        return int(self.duration) / int(self.bound.value) - 1

    def __eq__(self, other: object) -> bool:
        """Whether both do the same: provenance and bound do not count."""
        if not isinstance(other, Algorithm):
            return NotImplemented
        return (
            self.collectives == other.collectives
            and self.topology == other.topology
            and all(
                np.array_equal(getattr(self.transfers, name), getattr(other.transfers, name))
                for name in ("chunk", "link", "start", "reduce", "follows")
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = " + ".join(collective.kind for collective in self.collectives[:3])
        if len(self.collectives) > 3:
            what += f" + {len(self.collectives) - 3} more"
        work = counted(len(self.transfers), "transfer")
        needs = f", needs {needs_in_brief(self.needs)}" if self.needs else ""
        return f"Algorithm({what} on {self.topology.name}: {work}, {self.duration_text}{needs})"

    @property
    def duration_text(self) -> str:
        """The duration, rounded for people."""
        return time_text(self.duration)

    def save(self, path: str | Path) -> None:
        """Write everything to one file; :func:`pccl.load` reads it back.

        A name that ends with ``.json`` makes it a JSON document; anything else makes it a ``.pccl`` file.
        """
        from pccl.algorithm.storage import save

        save(self, path)

    def summary(self) -> str:
        """What was asked and what was found, for people."""
        return "\n".join(f"{name:<12} {text}" for name, text in self.facts().items())

    def facts(self) -> dict[str, str]:
        """The lines of the summary, by name."""
        shown = [str(collective) for collective in self.collectives[:8]]
        if len(self.collectives) > len(shown):
            shown.append(f"and {len(self.collectives) - len(shown)} more")
        busiest = self.utilization.max(initial=0.0)
        average = self.utilization.mean() if self.topology.num_links else 0.0
        volume = size_text(int(self.transfers.bytes.sum()))
        made = self.provenance
        facts = {
            "topology": repr(self.topology).removeprefix("Topology(").removesuffix(")"),
            "collectives": f"\n{'':<13}".join(shown),
            "chunks": f"{len(self.conditions):,}",
            "transfers": f"{len(self.transfers):,}, moving {volume} in all",
            "duration": self.duration_text,
            "links": f"{average:.1%} busy on average, the busiest {busiest:.1%}",
            "found by": f"{made.method}, seed {made.seed}, in {made.seconds:.3g} s (pccl {made.version})",
        }
        if made.cut_short:
            facts["cut short"] = (
                "the search was ended before its time, so another run may find another plan"
            )
        if self.needs:
            facts["needs"] = needs_text(self.needs)
        if self.bound is not None:
            facts["bound"] = f"{self.bound}; no algorithm is faster"
            facts["gap"] = f"{self.gap:.1%} above the bound"
        return facts

    @cached_property
    def utilization(self) -> Floats:
        """Per link: the share of the time for which it is held."""
        return self.transfers.link_busy / max(int(self.duration), 1)


def needs_text(needs: tuple[str, ...]) -> str:
    """What an algorithm needs of switches, and who has to see to it, for people; empty if it needs nothing of them.

    Examples
    --------
    >>> needs_text(("reduce",))
    'switches that add messages up (reduce), and a runtime that has them do it'
    """
    return f"switches that {_WORK[needs]}, and a runtime that has them do it" if needs else ""


def needs_in_brief(needs: tuple[str, ...]) -> str:
    """The same where there is room for a few words; empty if it needs nothing of them.

    Examples
    --------
    >>> needs_in_brief(("multicast", "reduce"))
    'switches that multiply and add'
    """
    return f"switches that {' and '.join(_BRIEFLY[need] for need in needs)}" if needs else ""


def _whole_numbers(values: ArrayLike, name: str) -> Column:
    # NumPy takes an empty list for floats, so its type says nothing.
    column = np.asarray(values)
    if column.ndim != 1 or (column.dtype.kind not in "iu" and len(column)):
        raise VerificationError(
            f"the {name} column must be a list of whole numbers that fit 64 bits"
        )
    # As an int64, such a number would be negative.
    if column.dtype == np.uint64 and np.any(column > np.iinfo(np.int64).max):
        raise VerificationError(
            f"the {name} column holds {column.max()}, which does not fit 63 bits"
        )
    return column if len(column) else column.astype(np.int64)


def _refuse_unknown(column: Column, name: str, limit: int) -> None:
    outside = (column < 0) | (column >= limit)
    if np.any(outside):
        row = int(np.argmax(outside))
        raise VerificationError(f"transfer {row}: there is no {name} {column[row]}, only {limit}")


def _order_of(chunk: Column, link: Column, start: Column, chunks: int) -> Ints | None:
    """The order by chunk, start and link; None if that is how they are, as usual."""
    if _is_in_order(chunk, link, start):
        return None
    # Keeps the order within chunks and takes linear time; the general sort comes last.
    by_chunk = stable_order(chunk, chunks)
    # Usually the transfers of a chunk are in order already, which is cheaper to see than to sort.
    if _is_in_order(chunk[by_chunk], link[by_chunk], start[by_chunk]):
        return by_chunk
    return np.lexsort((link, start, chunk))


def _is_in_order(chunk: Column, link: Column, start: Column) -> bool:
    same_chunk = chunk[1:] == chunk[:-1]
    same_start = start[1:] == start[:-1]
    later = (start[1:] > start[:-1]) | (same_start & (link[1:] >= link[:-1]))
    return bool(np.all((chunk[1:] > chunk[:-1]) | (same_chunk & later)))


def check_algorithm(value: object, who: str) -> None:
    """Raise unless this is an algorithm, which somebody takes."""
    if not isinstance(value, Algorithm):
        raise PcclError(f"{who} an algorithm, not {value!r}; pccl.load reads one from a file")


def _renumbered(follows: ArrayLike, order: Ints | None, count: int) -> Indices:
    """Rows of the caller as rows in order."""
    given = _whole_numbers(follows, "follows")
    if len(given) != count:
        raise VerificationError(
            f"the follows column has {len(given)} entries for {counted(count, 'transfer')}"
        )
    outside = (given < -1) | (given >= count)
    if np.any(outside):
        row = int(np.argmax(outside))
        raise VerificationError(f"transfer {row} follows {given[row]}; there is no such transfer")
    if order is None:
        return np.ascontiguousarray(given, np.int32)
    place = inverse(order)
    moved = given[order]
    return np.where(moved >= 0, place[moved], -1).astype(np.int32)


def _first_in_first_out(transfers: Transfers) -> Indices:
    """What each transfer out of a switch that passes messages on sends: of a chunk, the first to come leaves first."""
    t = transfers
    into = np.flatnonzero(t.comes_to_pass)
    out = np.flatnonzero(t.passes_on)
    into = into[np.lexsort((t.arrival[into], t.reduce[into], t.chunk[into], t.dst[into]))]
    out = out[np.lexsort((t.start[out], t.reduce[out], t.chunk[out], t.src[out]))]
    # Which switch, chunk and kind of message; the n-th out of them is the n-th that came in.
    key_in = (t.dst[into] * np.int64(len(t.conditions)) + t.chunk[into]) * 2 + t.reduce[into]
    key_out = (t.src[out] * np.int64(len(t.conditions)) + t.chunk[out]) * 2 + t.reduce[out]
    number = np.arange(len(out)) - np.searchsorted(key_out, key_out)
    place = np.searchsorted(key_in, key_out) + number
    there = place < np.searchsorted(key_in, key_out, side="right")
    follows = np.full(len(t), -1, np.int32)
    follows[out[there]] = into[place[there]]
    return follows
