"""What each collective promises, from its definition alone: the outputs that a plan must produce from given inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pccl.export.mscclpp_plan import Plan

__all__ = ["COLLECTIVES", "expected_outputs"]

Values = NDArray[np.float64]
COLLECTIVES = (
    "allgather", "allreduce", "reducescatter", "alltoall", "broadcast", "reduce", "gather", "scatter", "sendrecv",
)  # fmt: skip


def expected_outputs(plan: Plan, inputs: list[Values]) -> list[Values | None] | str:
    """The outputs of all ranks, nothing where nothing is promised; or one line on why this cannot be said."""
    if plan.collective not in COLLECTIVES:
        return f"what {plan.collective!r} promises is not known here; known are {', '.join(COLLECTIVES)}"
    members = plan.pccl.members if plan.pccl.members is not None else list(range(len(plan.gpus)))
    if not members or len(set(members)) < len(members) or not all(0 <= m < len(plan.gpus) for m in members):
        return f"the members {members} are not ranks of the plan"
    root = plan.pccl.root if plan.pccl.root is not None else members[0]
    if root not in members:
        return f"the root {root} is not a member"
    try:
        found = _promise(plan.collective, [inputs[m] for m in members], members.index(root), plan.pccl.cyclic)
    except ValueError as error:
        return f"the buffers do not fit {plan.collective}: {error}"
    outputs: list[Values | None] = [None] * len(plan.gpus)
    for rank, output in zip(members, found, strict=True):
        there = plan.gpus[rank].output_chunks
        if output is not None and len(output) != there:
            return f"the buffers do not fit {plan.collective}: rank {rank} has {there} output chunks, not {len(output)}"
        outputs[rank] = output
    return outputs


def _promise(collective: str, inputs: list[Values], root: int, cyclic: bool) -> Sequence[Values | None]:
    """What the members end with, in their order."""
    n = len(inputs)
    match collective:
        case "allgather":
            return [np.concatenate(inputs)] * n
        case "allreduce":
            return [_total(inputs)] * n
        case "reducescatter":
            return _split(_total(inputs), n)
        case "alltoall":
            shares = [_split(values, n) for values in inputs]
            return [np.concatenate([share[i] for share in shares]) for i in range(n)]
        case "broadcast":
            return [inputs[root]] * n
        case "reduce":
            return [_total(inputs) if i == root else None for i in range(n)]
        case "gather":
            return [np.concatenate(inputs) if i == root else None for i in range(n)]
        case "scatter":
            return _split(inputs[root], n)
        case _:
            return [inputs[i - 1] if i or cyclic else None for i in range(n)]


def _total(inputs: list[Values]) -> Values:
    if len({len(values) for values in inputs}) > 1:
        raise ValueError("the inputs differ in size")
    total: Values = np.sum(inputs, axis=0)
    return total


def _split(values: Values, count: int) -> list[Values]:
    if len(values) % count:
        raise ValueError(f"{len(values)} chunks do not divide into {count} shares")
    return np.split(values, count)
