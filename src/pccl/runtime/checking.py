"""Numbers to run a plan on, and what must come out of them, from the definition of the collectives alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from pccl._arrays import Column
from pccl.collective import Promise
from pccl.runtime.arrays import UFUNCS, Arrays, NumpyArrays, carrier
from pccl.runtime.execute import Buffers
from pccl.runtime.scripts import Part, Scripts
from pccl.runtime.sizes import Elements, sized_collective

# The largest whole number up to which a type of floats has all; sums below it are exact in any order.
_EXACT = {"float16": 2048, "bfloat16": 256, "float8_e4m3fn": 16, "float8_e5m2": 8}


class Trial:
    """One collective with numbers in it: the inputs of its members, and what their outputs must hold.

    Numbers are made anew by every rank from the seed. Floats are whole and so small that every order of additions is
    exact.

    Parameters
    ----------
    part, elements
        The collective, and how many elements it has.
    op, dtype, seed
        What sums are, the type of the elements, and which numbers.

    Examples
    --------
    >>> import pccl
    >>> from pccl.runtime import scripts_of
    >>> plan = scripts_of(pccl.synthesize(pccl.topology.ring(2), pccl.AllReduce("1MiB")))
    >>> trial = Trial(plan.parts[0], 3)
    >>> trial.wrong(1, trial.input(0) + trial.input(1)), trial.wrong(1, trial.input(1))
    (0, 3)
    """

    def __init__(
        self,
        part: Part,
        elements: Elements,
        *,
        op: str = "sum",
        dtype: str = "int32",
        seed: int = 0,
    ) -> None:
        self.part = part
        self.op = op
        self.dtype = dtype
        self.seed = seed
        self.members: list[int] = part.members.tolist()
        self._promise = promise_of_part(part, elements)
        self._inputs: dict[int, Column] = {}

    def input(self, member: int) -> Column:
        """The input of a member of the group, which nobody should change; it is kept."""
        if member not in self._inputs:
            self._inputs[member] = self._made(member)
        return self._inputs[member]

    def _made(self, member: int) -> Column:
        size = 0 if self._promise is None else int(self._promise.input_bytes[member])
        seed = (self.seed, member)
        return _numbers(size, self.op, self.dtype, len(self.members), seed)

    def output_size(self, member: int) -> int:
        """How many elements the output of a member has."""
        return 0 if self._promise is None else int(self._promise.output_bytes[member])

    def wrong(self, member: int, output: Column) -> int:
        """How many elements of an output are not what they must be."""
        promise = self._promise
        if promise is None:
            return 0
        rows = np.flatnonzero(promise.rank == member).tolist()
        wanted: dict[int, Any] = {}
        # One input after another, of which only those that are kept anyway stay in memory.
        rows_of = defaultdict(list)
        for row in rows:
            for other in promise.contributors(int(promise.chunk[row])).tolist():
                rows_of[other].append(row)
        for other, its in rows_of.items():
            values = self._inputs[other] if other in self._inputs else self._made(other)
            for row in its:
                low = int(promise.input_offset[promise.chunk[row]])
                part = values[low : low + int(promise.bytes[row])]
                if row in wanted:
                    UFUNCS[self.op](wanted[row], part, out=wanted[row])
                else:
                    wanted[row] = part.copy()
        wrong = 0
        for row, exact in wanted.items():
            if self.op == "avg" and self.part.collective.collects:
                exact = exact / len(self.members)
            place = int(promise.output_offset[row])
            wrong += int(np.count_nonzero(output[place : place + len(exact)] != exact))
        return wrong


def trials(scripts: Scripts, elements: Sequence[Elements], **options: Any) -> list[Trial]:
    """Numbers for every collective; the options are those of :class:`Trial`."""
    seed = options.pop("seed", 0)
    return [
        Trial(part, count, seed=seed + number, **options)
        for number, (part, count) in enumerate(zip(scripts.parts, elements, strict=True))
    ]


def member_buffers(
    trial: Trial, member: int, in_place: bool = False, arrays: Arrays | None = None
) -> Buffers:
    """Fresh buffers of one member, as the library of a transport has them; outputs hold what means nothing.

    In place, the smaller of input and output lies in the larger one, where the collective has such a form: at its
    beginning, or where the share of the member is.
    """
    library = NumpyArrays() if arrays is None else arrays
    source = trial.input(member)
    target = np.full(trial.output_size(member), 77, source.dtype)
    if not (in_place and trial.part.in_place):
        return Buffers(library.native(source, trial.dtype), library.native(target, trial.dtype))
    small, large = sorted((len(source), len(target)))
    first = 0
    if small < large:
        # Shares differ by one element at most, the larger ones first.
        least, rest = divmod(large, len(trial.members))
        first = member * least + min(member, rest)
    inside = slice(first, first + small)
    if len(source) == large:
        whole = library.native(source, trial.dtype)
        return Buffers(whole, whole[inside])
    target[inside] = source
    whole = library.native(target, trial.dtype)
    return Buffers(whole[inside], whole)


def trial_buffers(
    scripts: Scripts,
    found: Sequence[Trial],
    *,
    in_place: bool = False,
    arrays: Arrays | None = None,
) -> list[list[Buffers]]:
    """Per rank: fresh buffers for every collective that it is a member of."""
    buffers: list[list[Buffers]] = [[] for _ in range(scripts.ranks)]
    for trial in found:
        for member, rank in enumerate(trial.members):
            buffers[rank].append(member_buffers(trial, member, in_place, arrays))
    return buffers


def wrong_elements(
    found: Sequence[Trial], buffers: Sequence[Sequence[Buffers]], arrays: Arrays | None = None
) -> list[int]:
    """Per collective: how many elements of all outputs are not what they must be."""
    library = NumpyArrays() if arrays is None else arrays
    turns = [iter(pairs) for pairs in buffers]
    return [
        sum(
            trial.wrong(member, library.values(next(turns[rank]).output))
            for member, rank in enumerate(trial.members)
        )
        for trial in found
    ]


def promise_of_part(part: Part, elements: Elements) -> Promise | None:
    """What the members are promised, by their places in the group; None without any elements."""
    collective = sized_collective(part, elements)
    if collective is None:
        return None
    number = np.full(int(part.group.max()) + 1, -1, np.int64)
    number[part.group] = np.arange(len(part.group))
    return collective.promise(number, len(part.group))


def _numbers(count: int, op: str, dtype: str, members: int, seed: tuple[int, int]) -> Column:
    random = np.random.default_rng(seed)
    kind = carrier(dtype)
    if kind.kind in "iu":
        # Sums and products of integers are exact in any order, as they wrap around.
        limits = np.iinfo(kind)
        return random.integers(limits.min, limits.max, count, kind, endpoint=True)
    if op == "prod":
        return random.choice([-1, 1], count).astype(kind)
    # An average is exact as well if everything is a multiple of the number of members.
    unit = members if op == "avg" else 1
    most = max(_EXACT.get(dtype, 2**20) // (members * unit), 1)
    values = random.integers(0, most, count, endpoint=True) * unit
    return values.astype(kind)
