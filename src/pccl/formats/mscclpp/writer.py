"""Algorithms as execution plans in files, which the interpreter runs before they are saved."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pccl._files import replacing
from pccl.algorithm import Algorithm
from pccl.errors import InternalError, PcclError
from pccl.formats.lowering import Program, lower
from pccl.formats.mscclpp.assembly import Json, assemble
from pccl.formats.mscclpp.batches import Batches
from pccl.formats.mscclpp.interpreter import execute
from pccl.formats.mscclpp.plan import parse as parse_plan
from pccl.formats.mscclpp.resources import Resources
from pccl.formats.mscclpp.rules import MAX_OPS
from pccl.formats.mscclpp.schedule import arrange
from pccl.units import Bytes, parse, whole

__all__ = ["write"]

NAMES = {
    "all-gather": "allgather",
    "all-reduce": "allreduce",
    "reduce-scatter": "reducescatter",
    "all-to-all": "alltoall",
    "all-to-all-v": "alltoallv",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "send-recv": "sendrecv",
}
MOST_THREADBLOCKS = (
    80  # all must run at once, and a GPU of 2017 runs this many; later ones run more
)
ALIGNMENT = 16
MOST_ADDRESSED = 2**32 - 2**20  # bytes of a buffer, whose end has to be below 2**32 as well
UNFOLDED = {"gpus", "threadblocks", "ops"}
MOST_TRIED = (
    64 * MOST_THREADBLOCKS * MAX_OPS
)  # operations that the interpreter runs in a few seconds


def write(
    algorithm: Algorithm,
    path: str | Path,
    *,
    in_place: bool = False,
    all_ranks: bool = False,
    instances: int = 1,
    ranks_per_box: int | None = None,
    max_threadblocks: int = MOST_THREADBLOCKS,
    min_bytes: str | int | None = None,
    max_bytes: str | int | None = None,
    collective: int | None = None,
) -> Mapping[str, str]:
    """Write an algorithm as an execution plan of MSCCL++.

    Parameters
    ----------
    algorithm
        What to write.
    path
        The JSON file.
    in_place
        Whether input and output are one buffer, as NCCL defines it for the collective.
    all_ranks
        Whether all NPUs are ranks, also those that only relay; otherwise the ranks are the group, in its order.
    instances
        How many threadblocks share every piece of work.
    ranks_per_box
        How many consecutive ranks reach each other's memory, and so use memory channels; others use port channels. By
        default all do.
    max_threadblocks
        How many threadblocks a GPU runs at once.
    min_bytes, max_bytes
        The sizes that the plan is for; by default all whose buffers kernels can address.
    collective
        Which of several collectives of the algorithm to write.

    Returns
    -------
    Mapping
        What has been written, by name, for people.

    Examples
    --------
    >>> import pccl, tempfile
    >>> algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(algorithm, f"{folder}/ring.plan.json", in_place=True)["threadblocks"]
    '16, at most 4 on a rank'
    """
    task = (
        algorithm.collectives[collective or 0]
        if 0 <= (collective or 0) < len(algorithm.collectives)
        else None
    )
    if task is not None and task.kind not in NAMES:
        known = ", ".join(NAMES)
        raise PcclError(
            f"no call of MSCCL++ says where the chunks of a {task.kind} collective lie; it has {known}"
        )
    most, copies = _count(max_threadblocks, "max_threadblocks"), _count(instances, "instances")
    smallest = 0 if min_bytes is None else _size(min_bytes, "min_bytes")
    largest = None if max_bytes is None else _size(max_bytes, "max_bytes")
    if most // copies < 2:
        raise PcclError(
            f"{copies} instances need at least {2 * copies} threadblocks (max_threadblocks), not {most}"
        )
    program = lower(algorithm, collective=collective, in_place=in_place, all_ranks=all_ranks)
    if len(program.members) < 2:
        raise PcclError(
            f"{program.collective.kind} in a group of one NPU sends nothing, so it needs no plan"
        )
    box = len(program.npus) if ranks_per_box is None else _count(ranks_per_box, "ranks_per_box")
    schedule = arrange(program, box=box, most=most // copies)
    resources = Resources(schedule, in_place)
    document = _document(resources, copies, smallest, largest)
    text = _render(document)
    checked = _try(text, document)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())
    padded = {"padded": program.padding_text} if program.padding else {}
    return _facts(document, schedule.batches) | padded | {"checked": checked}


def _document(resources: Resources, instances: int, smallest: int, largest: int | None) -> Json:
    program = resources.program
    name = NAMES[program.collective.kind]
    gpus = [assemble(resources, rank, instances) for rank in range(len(program.npus))]
    fingerprint = hashlib.sha256(msgspec.json.encode([resources.in_place, gpus])).hexdigest()[:8]
    return {
        "name": f"pccl_{name}_{len(gpus)}_{fingerprint}",  # executors tell plans apart by their names alone
        "collective": name,
        "protocol": "Simple",
        "inplace": resources.in_place,
        "reuse_resources": False,
        "gpus": gpus,
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": ALIGNMENT,
        "min_message_size": smallest,
        "max_message_size": _largest(gpus, name, smallest, largest),
        "pccl": _about(program, resources.unit),
    }


def _largest(gpus: list[Json], collective: str, smallest: int, wanted: int | None) -> int:
    """The largest message, by the size that the loader goes by, whose buffers kernels can address."""
    told = min(
        gpu["output_chunks" if collective == "allgather" else "input_chunks"] for gpu in gpus
    )
    chunks = max(
        gpu[f"{buffer}_chunks"] for gpu in gpus for buffer in ("input", "output", "scratch")
    )
    limit = MOST_ADDRESSED // chunks * told
    limit -= limit % 2**20 if limit >= 2**20 else 0  # as people write it
    largest = limit if wanted is None else wanted
    if not smallest <= largest <= limit:
        text = f"from min_bytes ({smallest}) to max_bytes ({largest}) there are no sizes"
        if largest > limit:
            text = (
                f"max_bytes is {largest}, but kernels count the bytes of {chunks:,} chunks "
                f"with 32 bits: up to {limit}"
            )
        raise PcclError(text)
    return largest


def _render(value: Any, indent: str = "\n", unfold: bool = True) -> str:
    """JSON with one line for each operation, which people can read and which stays small."""
    if not unfold:
        return msgspec.json.encode(value).decode()
    deeper = f"{indent} "
    if isinstance(value, list):
        items = [_render(item, deeper, bool(UNFOLDED & item.keys())) for item in value]
        return f"[{deeper}{f',{deeper}'.join(items)}{indent}]"
    fields = [
        f'"{name}": {_render(item, deeper, name in UNFOLDED)}' for name, item in value.items()
    ]
    return f"{{{deeper}{f',{deeper}'.join(fields)}{indent}}}"


def _try(text: str, document: Json) -> str:
    """Run the plan before anybody else does, and say so."""
    ops = sum(len(block["ops"]) for gpu in document["gpus"] for block in gpu["threadblocks"])
    if ops > MOST_TRIED:
        return f"no, with {ops:,} operations; 'pccl check' does, in its time"
    problems = execute(parse_plan(text))
    if problems:
        raise InternalError(f"the plan that was to be written is wrong: {problems[0]}")
    return "run by the interpreter: exact, without races or deadlock"


def _count(value: object, name: str) -> int:
    count = whole(value)
    if count is None or count < 1:
        raise PcclError(f"{name} must be a positive whole number, not {value!r}")
    return count


def _size(value: str | int, name: str) -> int:
    return int(parse(Bytes, Bytes(value) if isinstance(value, int) else value, name))


def _about(program: Program, unit: int) -> Json:
    """What the loader has no place for, but whoever checks results must know."""
    task = program.collective
    about: Json = {"members": program.members.tolist()}
    if getattr(task, "root", None) is not None:
        about["root"] = int(np.flatnonzero(program.npus == task.root)[0])  # type: ignore[attr-defined]
    if task.kind == "send-recv":
        about["cyclic"] = task.cyclic  # type: ignore[attr-defined]
    if task.kind == "all-to-all-v":
        matrix = np.zeros((len(program.npus),) * 2, np.int64)
        matrix[np.ix_(program.members, program.members)] = np.array(task.matrix) // unit  # type: ignore[attr-defined]
        about["matrix"] = matrix.tolist()
    return about


def _facts(document: Json, batches: Batches) -> dict[str, str]:
    gpus = document["gpus"]
    blocks = [len(gpu["threadblocks"]) for gpu in gpus]
    ops = [len(block["ops"]) for gpu in gpus for block in gpu["threadblocks"]]
    chunks = max(max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in gpus)
    return {
        "ranks": f"{len(gpus)}",
        "messages": f"{len(batches.staged):,}, at most {max(map(len, batches.messages), default=0)} with one signal",
        "threadblocks": f"{sum(blocks):,}, at most {max(blocks)} on a rank",
        "operations": f"{sum(ops):,}, at most {max(ops)} of {MAX_OPS} in a threadblock",
        "scratch": f"at most {max(gpu['scratch_chunks'] for gpu in gpus):,} chunks on a rank",
        "sizes": f"buffers of {chunks:,} chunks, each a multiple of {ALIGNMENT}B; "
        f"{Bytes(document['min_message_size'])} to {Bytes(document['max_message_size'])} in all",
    }
