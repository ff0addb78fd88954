"""Numbers to run a plan on, and what must come out of them, from the definition of the collectives alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from pccl._arrays import Column, Ints
from pccl.collective import Promise
from pccl.runtime.arrays import UFUNCS, numpy_dtype
from pccl.runtime.execute import Buffers
from pccl.runtime.scripts import Part, Scripts
from pccl.runtime.sizes import Elements, sized_collective

# The largest whole number up to which a type of floats has all; sums below it are exact in any order.
_EXACT = {"float16": 2048, "bfloat16": 256, "float8_e4m3fn": 16, "float8_e5m2": 8}


@dataclass(frozen=True, eq=False)
class Trial:
    """Inputs of all members of a collective, and what their outputs must hold.

    Attributes
    ----------
    members
        The ranks that take part, in the order of the group.
    inputs
        Per member: its input, as NumPy has it.
    output_sizes
        Per member: the elements of its output.
    expected
        Per member: the places of its output that are promised, and what must be there.
    """

    members: tuple[int, ...]
    inputs: tuple[Column, ...]
    output_sizes: tuple[int, ...]
    expected: tuple[tuple[Ints, Column], ...]

    def wrong(self, member: int, output: Column) -> int:
        """How many elements of an output are not what they must be."""
        places, values = self.expected[member]
        return int(np.count_nonzero(output[places] != values))


def trials(
    scripts: Scripts,
    elements: Sequence[Elements],
    *,
    op: str = "sum",
    dtype: str = "int32",
    seed: int = 0,
) -> list[Trial]:
    """Make numbers for every collective; floats are whole and so small that every order of additions is exact.

    Examples
    --------
    >>> import pccl
    >>> from pccl.runtime import scripts_of
    >>> plan = scripts_of(pccl.synthesize(pccl.topology.ring(2), pccl.AllReduce("1MiB")))
    >>> trial = trials(plan, [3])[0]
    >>> places, values = trial.expected[1]
    >>> bool((values == trial.inputs[0] + trial.inputs[1]).all())
    True
    """
    return [
        _trial(part, count, op, dtype, seed + number)
        for number, (part, count) in enumerate(zip(scripts.parts, elements, strict=True))
    ]


def trial_buffers(
    scripts: Scripts, found: Sequence[Trial], *, in_place: bool = False
) -> list[list[Buffers]]:
    """Per rank: fresh buffers for every collective that it is a member of; outputs hold what means nothing.

    In place, the smaller of input and output lies in the larger one, where the collective has such a form.
    """
    buffers: list[list[Buffers]] = [[] for _ in range(scripts.ranks)]
    for part, trial in zip(scripts.parts, found, strict=True):
        for member, rank in enumerate(trial.members):
            source = trial.inputs[member].copy()
            target = np.full(trial.output_sizes[member], 77, source.dtype)
            if in_place and part.in_place:
                source, target = _shared(part, member, source, target)
            buffers[rank].append(Buffers(source, target))
    return buffers


def wrong_elements(found: Sequence[Trial], buffers: Sequence[Sequence[Buffers]]) -> int:
    """How many elements of all outputs are not what they must be."""
    wrong = 0
    turns = [iter(pairs) for pairs in buffers]
    for trial in found:
        for member, rank in enumerate(trial.members):
            wrong += trial.wrong(member, next(turns[rank]).output)
    return wrong


def promise_of_part(part: Part, elements: Elements) -> Promise | None:
    """What the members are promised, by their places in the group; None without any elements."""
    collective = sized_collective(part, elements)
    if collective is None:
        return None
    number = np.full(int(part.group.max()) + 1, -1, np.int64)
    number[part.group] = np.arange(len(part.group))
    return collective.promise(number, len(part.group))


def _trial(part: Part, elements: Elements, op: str, dtype: str, seed: int) -> Trial:
    count = len(part.members)
    promise = promise_of_part(part, elements)
    sizes = [0] * count if promise is None else promise.input_bytes.tolist()
    inputs = [_numbers(size, op, dtype, count, (seed, member)) for member, size in enumerate(sizes)]
    if promise is None:
        nothing = np.zeros(0, np.int64)
        expected = [(nothing, inputs[member][:0]) for member in range(count)]
        outputs = [0] * count
    else:
        outputs = promise.output_bytes.tolist()
        expected = _expected(promise, inputs, op, part.collective.collects and op == "avg")
    return Trial(tuple(part.members.tolist()), tuple(inputs), tuple(outputs), tuple(expected))


def _numbers(count: int, op: str, dtype: str, members: int, seed: tuple[int, int]) -> Column:
    random = np.random.default_rng(seed)
    kind = numpy_dtype(dtype)
    if kind.kind in "iu":
        # Sums and products of integers are exact in any order, as they wrap around.
        limits = np.iinfo(kind)
        return random.integers(limits.min, limits.max, count, kind, endpoint=True)
    if op == "prod":
        values = random.choice([-1, 1], count)
    else:
        most = max(_EXACT.get(dtype, 2**20) // members, 1)
        values = random.integers(0, most, count, endpoint=True)
    return values.astype(kind)


def _expected(
    promise: Promise, inputs: Sequence[Column], op: str, average: bool
) -> list[tuple[Ints, Column]]:
    places: list[list[Ints]] = [[np.zeros(0, np.int64)] for _ in inputs]
    values: list[list[Column]] = [[sample[:0]] for sample in inputs]
    columns = (promise.rank, promise.output_offset, promise.bytes, promise.chunk)
    for rank, offset, size, chunk in zip(*(c.tolist() for c in columns), strict=True):
        low = int(promise.input_offset[chunk])
        parts = [inputs[other][low : low + size] for other in promise.contributors(chunk).tolist()]
        total: Any = reduce(UFUNCS[op], parts)
        places[rank].append(np.arange(offset, offset + size))
        values[rank].append(total / total.dtype.type(len(inputs)) if average else total)
    return [
        (np.concatenate(where), np.concatenate(what))
        for where, what in zip(places, values, strict=True)
    ]


def _shared(part: Part, member: int, source: Column, target: Column) -> tuple[Column, Column]:
    """The smaller one as a part of the larger one: at its beginning, or where the share of the member is."""
    small, large = sorted((len(source), len(target)))
    if small == large:
        return source, source
    # Shares differ by one element at most, the larger ones first.
    least, rest = divmod(large, len(part.members))
    first = member * least + min(member, rest)
    if len(source) < len(target):
        target[first : first + small] = source
        return target[first : first + small], target
    return source, source[first : first + small]
