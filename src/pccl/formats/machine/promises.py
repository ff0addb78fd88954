"""What every rank must end with: the collective that a file says it is, made anew and laid out in its chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from pccl._arrays import Column, Ints
from pccl.collective import COLLECTIVES, Collective, Promise
from pccl.errors import CollectiveError, FormatError
from pccl.formats.machine.memory import Memory
from pccl.units import Bytes

# The collectives by their names in the files of runtimes.
BY_NAME: Mapping[str, type[Collective]] = {
    kind.nccl_name: kind for kind in COLLECTIVES.values() if kind.nccl_name is not None
}


def promise_of(
    name: str,
    ranks: int,
    members: Sequence[int],
    *,
    inputs: Sequence[int] | None = None,
    largest: int = 0,
    **said: Any,
) -> Promise:
    """What a collective promises when its buffers have so many chunks; a byte stands for a chunk.

    Parameters
    ----------
    name
        What files call the collective.
    ranks, members
        How many ranks there are, and those that take part, in the order of the group.
    inputs, largest
        Per rank the chunks of its input; or, without that, the chunks of the largest buffer.
    **said
        Parameters of some collectives, such as the root; those that this one does not have are left out.
    """
    kind = BY_NAME[name]
    parameters = {field.name for field in fields(kind) if field.init}

    def promise(size: int) -> Promise:
        given = {"size": Bytes(size), "group": members, **said}
        collective = kind(**{key: given[key] for key in parameters & given.keys()})
        return collective.promise(np.arange(ranks), ranks)

    try:
        # One chunk for each member shows how many shares the buffers have: some have one for every rank as well.
        one = promise(len(members))
        if inputs is None:
            shares, chunks = max(one.input_bytes.max(), one.output_bytes.max()), largest
        else:
            giver = one.contributor_ranks[0] if len(one.contributor_ranks) else members[0]
            shares, chunks = one.input_bytes[giver], inputs[giver]
        size, rest = divmod(chunks * len(members), max(int(shares), 1))
        found = promise(size)
        uneven = kind.has_one_size and (np.ptp(found.input_bytes) or np.ptp(found.output_bytes))
        if rest or uneven:
            raise FormatError(f"{chunks} chunks do not divide into {shares} shares")
        return found
    except (CollectiveError, FormatError) as error:
        raise FormatError(f"the buffers do not fit {name}: {error}") from None


def unfit_buffers(promise: Promise, sizes: Sequence[Mapping[str, int]]) -> Iterator[str]:
    """Say which buffers have not as many chunks as the promise needs; one without any has one that means nothing."""
    for buffer, name, ranks, chunks in (
        ("i", "input", promise.contributor_ranks, promise.input_bytes),
        ("o", "output", promise.rank, promise.output_bytes),
    ):
        for rank in np.unique(ranks).tolist():
            there = sizes[rank][buffer]
            wanted = max(int(chunks[rank]), 1)
            if there != wanted:
                yield f"rank {rank} has {there} {name} chunks, not {wanted}"


def wrong_outputs(
    promise: Promise, inputs: Sequence[Column], memory: Memory
) -> Iterator[tuple[int, Ints]]:
    """The ranks that end with something else than they are promised, and the chunks of their outputs that are wrong."""
    for rank, (chunks, values) in enumerate(promise.expected(inputs)):
        if len(chunks):
            differs = memory.content(rank, "o")[chunks] != values
            wrong = chunks[differs.any(axis=1)]
            if len(wrong):
                yield rank, np.sort(wrong)
