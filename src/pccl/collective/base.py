"""What all collectives share, and how their parameters are checked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from pccl._arrays import Column, Indices, Ints, offsets_of
from pccl._memory import free_memory
from pccl.collective.conditions import Conditions
from pccl.collective.groups import format_group, npu_numbers
from pccl.collective.layout import BufferLayout, Promise, Ranks, kept
from pccl.errors import CollectiveError
from pccl.topology import Topology
from pccl.units import Bytes, Size, counted, parse, size_text, whole

# Pieces are numbered in 32 bits.
_MOST_CHUNKS = 2**31 - 1
# Of chunks to destinations. What a search takes for each, measured on All-Gathers with a million of them and more.
MOST_DELIVERIES = 2**28
BYTES_PER_DELIVERY = 100
# Take so little memory that nobody need ask for it.
_FEW_DELIVERIES = 2**16
ELEMENT_BYTES = {
    name: size
    for size, names in (
        (1, "uint8 int8 float8_e4m3fn float8_e5m2"),
        (2, "float16 bfloat16 int16 uint16"),
        (4, "float32 int32 uint32"),
        (8, "float64 int64 uint64"),
    )
    for name in names.split()
}


# Of every share that has to move: its size, and a row of its sources and of its destinations.
Moves: TypeAlias = tuple[Ints, Column, Column]


@dataclass(frozen=True)
class Collective:
    """What all collectives share; use one of the kinds.

    Parameters
    ----------
    size
        Buffer of one NPU, for example ``"8MiB"``.
    group
        The NPUs that take part, in the order of their ranks; ``None`` for all of them.
    chunks
        Into how many pieces every share is cut; ``None`` to let :func:`pccl.synthesize` find out what is best (where
        nothing is searched for, that is one).
    dtype
        The type of the elements, as PyTorch and NumPy call it. Shares, and the pieces of a share, differ by one element
        where they cannot be equal.
    priority
        Those of a higher priority run as if those of a lower one were not there.
    weight
        How much it matters that this one is done early, compared with others of the same priority.
    confined
        Whether its chunks keep to the NPUs of the group; otherwise others relay them where that gains time.

    Attributes
    ----------
    kind
        The name of the collective here.
    nccl_name
        Its name in runtimes, such as ``"allreduce"``; ``None`` if they have no call for it.
    collects, spreads
        Whether the values of all members are added up; whether everyone ends with all shares.
    rooted
        Whether one member, the `root`, is special.
    has_one_size
        Whether `size` is a parameter; otherwise the parts have sizes of their own, and it follows from them.
    in_place_differs
        Whether in place other data moves than out of place, so that no program is right for both.
    """

    size: Size
    group: Iterable[int] | None = None
    chunks: int | None = None
    dtype: str = field(default="uint8", kw_only=True)
    priority: int = field(default=0, kw_only=True, repr=False)
    weight: float = field(default=1.0, kw_only=True, repr=False)
    confined: bool = field(default=False, kw_only=True, repr=False)

    kind: ClassVar[str] = ""
    nccl_name: ClassVar[str | None] = ""
    collects: ClassVar[bool] = False
    spreads: ClassVar[bool] = False
    rooted: ClassVar[bool] = False
    has_one_size: ClassVar[bool] = True
    in_place_differs: ClassVar[bool] = False
    # Whether the buffer is one share, which moves as a whole; otherwise every member has a share of it.
    _is_one_share: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        # Runtimes have the same names, without hyphens.
        if cls.nccl_name is not None:
            cls.nccl_name = cls.kind.replace("-", "")

    def __post_init__(self) -> None:
        self._set("size", parse(Bytes, self.size, f"size of {self.kind}"))
        if self.size == 0:
            raise CollectiveError(f"{self.kind} has a size of 0; it must be positive")
        self._check_shared()
        # Last, when the dtype is known to be one that has a size.
        self._check_elements(int(self.size), "a size of")

    def _check_shared(self) -> None:
        self._set("dtype", str(self.dtype).removeprefix("torch."))
        if self.dtype not in ELEMENT_BYTES:
            known = ", ".join(ELEMENT_BYTES)
            raise self._error(f"there is no dtype {self.dtype!r}; there are {known}")
        priority = whole(self.priority)
        if priority is None:
            raise self._error(f"the priority must be a whole number, not {self.priority!r}")
        self._set("priority", priority)
        if isinstance(self.weight, bool) or not isinstance(self.weight, int | float):
            raise self._error(f"the weight must be a number, not {self.weight!r}")
        if not 0 < self.weight < float("inf"):
            raise self._error(f"the weight must be positive, not {self.weight!r}")
        self._set("weight", float(self.weight))
        self._set("confined", yes_or_no(self.confined, f"{self.kind}: confined"))
        if self.group is not None:
            self._set("group", npu_numbers(self.group, f"{self.kind}: the group"))
            self._check_group(self.ranks)
        if self.chunks is None:
            return
        chunks = whole(self.chunks)
        if chunks is None or chunks < 1:
            raise self._error(f"chunks must be a positive whole number, not {self.chunks!r}")
        if chunks > _MOST_CHUNKS:
            raise self._error(f"{chunks} chunks are too many; {_MOST_CHUNKS} is the limit")
        self._set("chunks", chunks)

    @property
    def pieces(self) -> int:
        """Into how many pieces every share is cut."""
        return self.chunks or 1

    @property
    def element(self) -> int:
        """Bytes of one element."""
        return ELEMENT_BYTES[self.dtype]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The group as a tuple; empty when it spans all NPUs."""
        return tuple(self.group) if self.group is not None else ()

    def members(self, npus: Ints) -> Ints:
        """The NPUs of the group, in the order of their ranks, where these are all there are."""
        return npus if self.group is None else np.array(self.ranks, np.int64)

    def conditions(self, topology: Topology) -> Conditions:
        """One condition per chunk, on this topology."""
        # Each mistake has an error of its own: a number that is no device, a switch, a device that
        # has failed.
        for rank in self.ranks:
            if not 0 <= rank < topology.num_devices:
                present = _shortened(format_group(topology.npus.tolist()))
                raise self._error(
                    f"there is no NPU {rank} in {topology.name}, which has NPUs {present}"
                )
            if topology.is_switch(rank):
                raise self._error(
                    f"device {rank} ({topology.labels[rank]}) is a switch, not an NPU"
                )
            if rank not in topology.npus:
                raise self._error(f"NPU {rank} is absent from {topology.name}")
        return self._conditions(self.members(topology.npus))

    def layout(
        self, conditions: Conditions, rank_of: Ints, ranks: int, padded: bool = False
    ) -> BufferLayout:
        """Say where the chunks lie in the buffers of the ranks.

        Parameters
        ----------
        conditions
            The conditions of this collective alone.
        rank_of
            Per device: its rank, or -1.
        ranks
            How many ranks there are; more than members where others only relay.
        padded
            Whether every chunk has the room of the largest, so that runtimes can count in chunks.

        Examples
        --------
        >>> import pccl
        >>> gather = pccl.AllGather("4kB", chunks=2)
        >>> layout = gather.layout(gather.conditions(pccl.topology.ring(2)), np.arange(2), 2)
        >>> layout.input_offset.tolist(), layout.output_offset.tolist()
        ([0, 1000, 0, 1000], [0, 1000, 2000, 3000])
        """
        who = self._ranks(rank_of, ranks)
        if not padded:
            return self._layout(conditions, who)
        # The enlarged collective has the same chunks in the same order, each with more room.
        enlarged = self.with_equal_chunks(len(who.group))
        return enlarged._layout(enlarged._conditions(who.group), who)

    def promise(self, rank_of: Ints, ranks: int, padded: bool = False) -> Promise:
        """Say what every rank must end with; the parameters are those of :meth:`layout`.

        Needs no topology: to check a file whose buffers are counted in chunks, make a collective with one byte for each
        of them and with ranks for NPUs, and take its promise for ``np.arange(ranks)``.

        Examples
        --------
        >>> import pccl
        >>> promise = pccl.Broadcast("4kB", root=1).promise(np.arange(2), 2)
        >>> promise.rank.tolist(), promise.bytes.tolist(), promise.contributors(0).tolist()
        ([0, 1], [4000, 4000], [1])
        """
        conditions = self._conditions(self._ranks(rank_of, ranks).group)
        return Promise.of(conditions, self.layout(conditions, rank_of, ranks, padded), rank_of)

    def with_equal_chunks(self, members: int) -> Self:
        """The same collective, enlarged to the next size that a group of this many divides into equal chunks.

        One whose parts have sizes of their own stays as it is.

        Examples
        --------
        >>> import pccl
        >>> str(pccl.AllReduce("1000B", chunks=2).with_equal_chunks(6))
        'all-reduce of 1.008kB among all NPUs, 2 chunks'
        """
        if not self.has_one_size:
            return self
        chunks = self.pieces * self._count_shares(members)
        step = chunks * self.element
        # An empty chunk has no condition: then the enlarged collective would have more chunks than
        # this one.
        if int(self.size) < step:
            # With one chunk to a share, there is nothing to take less of.
            remedy = "fewer chunks or a larger size" if self.pieces > 1 else "a larger size"
            raise self._error(
                f"{self.size} is too little for {counted(chunks, 'chunk')} of {self.dtype} elements, some of which "
                f"would be empty; take {remedy}"
            )
        return replace(self, size=Bytes(-(-int(self.size) // step) * step))

    def uncut(self) -> Self:
        """The same collective, of which nobody has said into what its data are cut."""
        return replace(self, chunks=None)

    def in_one(self) -> Self:
        """The same collective with its data in as few chunks as can be."""
        return replace(self, chunks=1)

    def with_elements(self, count: int) -> Self:
        """The same collective of so many elements, each of one byte: plans are for ratios, not for sizes.

        Examples
        --------
        >>> import pccl
        >>> str(pccl.AllReduce("1MiB", chunks=2).with_elements(10))
        'all-reduce of 10B among all NPUs, 2 chunks'
        """
        return replace(self, size=Bytes(count), dtype="uint8")

    def sizes_in(self, conditions: Conditions, group: Ints, other: Collective) -> Ints:
        """The bytes that chunks of this collective have in another, which differs from it only in its size.

        There, some may be empty.

        Parameters
        ----------
        conditions
            The chunks of this collective.
        group
            The NPUs that take part.
        other
            Such as this one :meth:`with_elements`.

        Examples
        --------
        >>> import pccl
        >>> plan = pccl.AllReduce("1MiB", chunks=2)
        >>> chunks = plan.conditions(pccl.topology.ring(2))
        >>> plan.sizes_in(chunks, np.arange(2), plan.with_elements(5)).tolist()
        [2, 1, 1, 1]
        """
        planned = self._share_sizes(group)
        there = other._share_sizes(group)
        if np.any(there[planned == 0]):
            raise self._error(
                f"the plan is for {self.size}, which is so small that some have nothing to send; they have with "
                f"{int(other.size)} elements; plan it for more"
            )
        # The shares of the plan without those of no bytes, which have no chunks.
        share = there[np.flatnonzero(planned)][conditions.share]
        pieces = np.bincount(conditions.share)[conditions.share]
        least, rest = np.divmod(share, pieces)
        sizes: Ints = least + (conditions.piece < rest)
        return sizes

    def bus_factor(self, members: int) -> float:
        """Bus bandwidth over algorithm bandwidth in a group of this size, as nccl-tests defines it."""
        return 1.0 if self._is_one_share else (members - 1) / members

    def deliveries(self, members: int) -> int:
        """About how many chunks arrive at destinations in a group of this size, if no share is empty.

        Examples
        --------
        >>> import pccl
        >>> pccl.AllGather("4MiB", chunks=10).deliveries(8)
        640
        """
        shares = max(self._count_shares(members), 1)
        most_pieces = max(int(self.size) // self.element // shares, 1)
        return members * (1 if self.rooted else shares) * min(self.pieces, most_pieces)

    def check_manageable(self, members: int) -> None:
        """Refuse what no memory holds, before any of it is taken."""
        count = self.deliveries(members)
        if count <= _FEW_DELIVERIES:
            return
        free = free_memory()
        needed = count * BYTES_PER_DELIVERY
        if count > MOST_DELIVERIES or needed > free:
            raise self._error(
                f"that is about {count:,} chunks to deliver, which take {size_text(needed)} of memory, and "
                f"{size_text(free)} is free; take fewer chunks or a smaller group"
            )

    def most_pieces(self, topology: Topology) -> int:
        """Into how many pieces a share can be cut: as many as the largest has elements.

        Examples
        --------
        >>> import pccl
        >>> pccl.AllGather("4kB", dtype="float32").most_pieces(pccl.topology.ring(8))
        125
        """
        return self._largest_share(len(self.members(topology.npus))) // self.element

    def check_pieces(self, topology: Topology) -> None:
        """Refuse more pieces than a share has elements, before it is cut."""
        most = self.most_pieces(topology)
        # Of nothing, nothing is cut.
        if 0 < most < self.pieces:
            share = Bytes(most * self.element)
            raise self._error(
                f"{self.pieces:,} chunks are more than a share of {share} can be cut into, which has "
                f"{counted(most, 'element')} of {self.dtype}; take fewer chunks or a larger size"
            )

    def _largest_share(self, members: int) -> int:
        return int(self._shares(members).max(initial=0))

    def _conditions(self, group: Ints) -> Conditions:
        """Cut what moves into pieces, and leave out those that are empty."""
        self.check_manageable(len(group))
        shares, sources, destinations = self._moves(group.astype(np.int32))
        elements = shares // self.element
        # No more pieces than elements, as all others are empty.
        pieces = min(self.pieces, int(elements.max(initial=1)))
        sizes = split(elements, pieces) * self.element
        # Row by row, so that the pieces of a share follow each other, which all else relies on.
        share, piece = np.nonzero(sizes)
        return Conditions.of(
            sizes[share, piece], piece, sources[share], destinations[share], self.collects
        )

    def _moves(self, group: Ints) -> Moves:
        raise NotImplementedError

    def _share_sizes(self, group: Ints) -> Ints:
        """What every share has that could have to move, also where that is nothing."""
        return self._moves(group.astype(np.int32))[0]

    def _layout(self, conditions: Conditions, ranks: Ranks) -> BufferLayout:
        """Chunks lie one after another, at the same place in the input and in the output of all ranks."""
        place = offsets_of(conditions.bytes)[:-1]
        whole_buffer = np.full(ranks.count, int(self.size))
        shift = np.zeros(ranks.count, np.int64)
        return BufferLayout(place, place, whole_buffer, whole_buffer, shift, kept())

    def _gathered(
        self, conditions: Conditions, owner: Indices, ranks: Ranks, keepers: Ints | None = None
    ) -> BufferLayout:
        """Every rank has a share in its input, and all shares in its output, in the order of the ranks.

        `owner` says whose share each chunk is a part of, and `keepers` which ranks keep a copy of their own share.
        """
        shares = self._shares(len(ranks.group))
        # Ranks that only relay have shares as well, because runtimes count shares by ranks.
        size = np.full(ranks.count, shares.max(initial=0))
        size[ranks.members] = shares
        offsets = offsets_of(size)
        first = offsets[:-1]
        within = conditions.within_share
        own = kept() if keepers is None else kept(keepers, size[keepers], 0, first[keepers])
        # In place, the input of a rank is its own share of the output, so `first` is also the
        # shift.
        output_bytes = np.full(ranks.count, offsets[-1])
        output_offset = first[ranks.of_device[owner]] + within
        return BufferLayout(within, output_offset, size, output_bytes, first, own)

    def _ranks(self, rank_of: Ints, count: int) -> Ranks:
        return Ranks(rank_of, count, self.members(np.flatnonzero(rank_of >= 0)))

    def _check_group(self, group: tuple[int, ...]) -> None:
        if not group:
            raise self._error("the group is empty")
        if len(set(group)) < len(group):
            twice = next(rank for i, rank in enumerate(group) if rank in group[:i])
            raise self._error(f"NPU {twice} appears twice in the group")

    def _shares(self, members: int) -> Ints:
        """The sizes of the shares that the buffer consists of, in the order of the members."""
        elements = np.array([int(self.size) // self.element])
        shares: Ints = split(elements, self._count_shares(members))[0] * self.element
        return shares

    def _count_shares(self, members: int) -> int:
        return 1 if self._is_one_share else members

    def _check_elements(self, size: int, what: str) -> None:
        if size % self.element:
            raise self._error(
                f"{what} {Bytes(size)} is not a whole number of elements of {self.dtype}, "
                f"which have {counted(self.element, 'byte')}"
            )

    def _error(self, text: str) -> CollectiveError:
        return CollectiveError(f"{self.kind}: {text}")

    def _set(self, name: str, value: object) -> None:
        # Collectives are frozen; this puts what users wrote into its final form before anybody sees
        # it.
        object.__setattr__(self, name, value)

    def __str__(self) -> str:
        """One line for people."""
        who = "all NPUs"
        if self.group is not None:
            who = f"{counted(len(self.ranks), 'NPU')} ({_shortened(format_group(self.ranks))})"
        elements = "" if self.dtype == "uint8" else f" {self.dtype}"
        parts = [f"{self.kind} of {self.size}{elements} among {who}"]
        if self.chunks is not None:
            parts.append(counted(self.chunks, "chunk"))
        if self.priority:
            parts.append(f"priority {self.priority}")
        if self.weight != 1:
            parts.append(f"weight {self.weight:g}")
        if self.confined:
            parts.append("confined")
        return ", ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that :func:`collective_from_dict` reads back."""
        # What has its default, or follows from the rest, need not be said (and some of it cannot
        # be).
        given = [f for f in fields(self) if f.init and getattr(self, f.name) != f.default]
        return {"kind": self.kind} | {f.name: _plain(getattr(self, f.name)) for f in given}


def split(totals: Ints, parts: int) -> Ints:
    """Split whole numbers into this many parts, as equal as they can be, of which the larger ones come first.

    Examples
    --------
    >>> split(np.array([7, 6]), 3).tolist()
    [[3, 2, 2], [2, 2, 2]]
    """
    least, rest = np.divmod(totals, parts)
    return least[:, None] + (np.arange(parts) < rest[:, None])


def yes_or_no(value: object, what: str) -> bool:
    """The value as a truth value; `what` names it in the error message."""
    if not isinstance(value, bool | np.bool_):
        raise CollectiveError(f"{what} must be true or false, not {value!r}")
    return bool(value)


def _plain(value: Any) -> Any:
    """The value as YAML and JSON have it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return str(value) if isinstance(value, Bytes) else value


def _shortened(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
