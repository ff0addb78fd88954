"""What each collective promises, from its definition alone: the outputs that a plan must produce from given inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pccl._arrays import Floats
from pccl.formats.mscclpp.plan import Plan

__all__ = ["COLLECTIVES", "expected_outputs"]

Values = Floats
COLLECTIVES = (
    "allgather", "allreduce", "reducescatter", "alltoall", "alltoallv", "broadcast", "reduce", "gather", "scatter",
    "sendrecv",
)  # fmt: skip


def expected_outputs(plan: Plan, inputs: list[Values]) -> list[Values | None] | str:
    """The outputs of all ranks, or one line on why this cannot be said.

    Ranks that are not members contribute nothing and are promised nothing: their shares, and all else that is not
    promised, are NaN.
    """
    if plan.collective not in COLLECTIVES:
        return f"what {plan.collective!r} promises is not known here; known are {', '.join(COLLECTIVES)}"
    ranks = len(plan.gpus)
    members = plan.pccl.members if plan.pccl.members is not None else list(range(ranks))
    if not members or len(set(members)) < len(members) or not all(0 <= m < ranks for m in members):
        return f"the members {members} are not ranks of the plan"
    root = plan.pccl.root if plan.pccl.root is not None else members[0]
    if root not in members:
        return f"the root {root} is not a member"
    known = [
        values if rank in members else np.full_like(values, np.nan)
        for rank, values in enumerate(inputs)
    ]
    try:
        outputs = _promise(plan, known, members, root)
    except ValueError as error:
        return f"the buffers do not fit {plan.collective}: {error}"
    for rank in members:
        output, there = outputs[rank], plan.gpus[rank].output_chunks
        if output is not None and len(output) != there:
            return f"the buffers do not fit {plan.collective}: rank {rank} has {there} output chunks, not {len(output)}"
    return [output if rank in members else None for rank, output in enumerate(outputs)]


def _promise(
    plan: Plan, inputs: list[Values], members: list[int], root: int
) -> Sequence[Values | None]:
    """What the ranks end with, as if all were members."""
    n = len(inputs)
    match plan.collective:
        case "allgather":
            return [np.concatenate(inputs)] * n
        case "allreduce":
            return [_total(inputs, members)] * n
        case "reducescatter":
            return _split(_total(inputs, members), n)
        case "alltoall":
            shares = [_split(values, n) for values in inputs]
            return [np.concatenate([share[i] for share in shares]) for i in range(n)]
        case "alltoallv":
            return _unequal(inputs, plan.pccl.matrix or [])
        case "broadcast":
            return [inputs[root]] * n
        case "reduce":
            return [_total(inputs, members) if i == root else None for i in range(n)]
        case "gather":
            return [np.concatenate(inputs) if i == root else None for i in range(n)]
        case "scatter":
            return _split(inputs[root], n)
    received: list[Values | None] = [None] * n  # a send to the next
    for i, member in enumerate(members):
        received[member] = inputs[members[i - 1]] if i or plan.pccl.cyclic else None
    return received


def _total(inputs: list[Values], members: list[int]) -> Values:
    if len({inputs[member].shape for member in members}) > 1:
        raise ValueError("the inputs differ in size")
    total: Values = np.sum([inputs[member] for member in members], axis=0)
    return total


def _unequal(inputs: list[Values], matrix: list[list[int]]) -> list[Values | None]:
    """Shares of matrix[i][j] chunks, one after another; a buffer without any share has one chunk that means nothing."""
    shares: list[list[Values]] = []
    for values, row in zip(inputs, matrix, strict=True):
        if len(values) != max(sum(row), 1):
            raise ValueError(f"an input has {len(values)} chunks, not {sum(row)}")
        shares.append(np.split(values[: sum(row)], np.cumsum(row)[:-1]))
    outputs = [np.concatenate([row[i] for row in shares]) for i in range(len(inputs))]
    return [output if len(output) else None for output in outputs]


def _split(values: Values, count: int) -> list[Values]:
    if len(values) % count:
        raise ValueError(f"{len(values)} chunks do not divide into {count} shares")
    return np.split(values, count)
