"""Algorithms as execution plans in files, which the interpreter runs before they are saved."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pccl._files import replacing
from pccl._memory import free_memory
from pccl.algorithm import Algorithm
from pccl.collective import Collective
from pccl.errors import PcclError
from pccl.formats.lowering import Program, chosen_collective, lower
from pccl.formats.machine import BYTES_PER_CELL
from pccl.formats.mscclpp.assembly import assemble
from pccl.formats.mscclpp.batches import Batches
from pccl.formats.mscclpp.interpreter import execute
from pccl.formats.mscclpp.plan import MAX_OPS, MAX_THREADS, ExecutionPlan, facts, parse
from pccl.formats.mscclpp.resources import Json, Resources, chunk_bytes
from pccl.formats.mscclpp.schedule import arrange, expected_load
from pccl.formats.runtime_files import (
    CHECKED,
    matrix_of,
    positive,
    promise,
    refuse_wrong,
    size_of,
    too_many_chunks,
)
from pccl.units import Bytes, Picoseconds, Size, counted

# All must run at once, and a GPU of 2017 runs this many; later ones run more.
MOST_THREADBLOCKS = 80
ALIGNMENT = 16
# Bytes of a buffer, whose end has to be below 2**32 as well.
MOST_ADDRESSED = 2**32 - 2**20
UNFOLDED = {"gpus", "threadblocks"}
_ENCODER = msgspec.json.Encoder()
# Operations that the interpreter runs in a few seconds.
MOST_TRIED = 64 * MOST_THREADBLOCKS * MAX_OPS
# Of shares that differ, in the buffers of all ranks: as many as the interpreter runs in a few seconds.
MOST_SHARED = 2**22
# Of 16 bytes, in a buffer that kernels can address.
MOST_CHUNKS = 2**28


def write(
    algorithm: Algorithm,
    path: str | Path,
    *,
    in_place: bool = False,
    all_ranks: bool | None = None,
    instances: int = 1,
    ranks_per_box: int | None = None,
    max_threadblocks: int = MOST_THREADBLOCKS,
    threads_per_block: int = MAX_THREADS,
    min_bytes: Size | None = None,
    max_bytes: Size | None = None,
    collective: int | None = None,
    lowered: bool = False,
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
        Whether all NPUs are ranks, also those that only relay; otherwise the ranks are the group, in its order. By
        default only if some NPUs outside the group do relay.
    instances
        How many threadblocks share every piece of work.
    ranks_per_box
        How many consecutive ranks reach each other's memory, and so use memory channels; others use port channels. By
        default all do.
    max_threadblocks
        How many threadblocks a GPU runs at once.
    threads_per_block
        Threads of a threadblock; with fewer of them, a GPU runs more threadblocks at once.
    min_bytes, max_bytes
        The sizes that the plan is for; by default all whose buffers kernels can address.
    collective
        Which of several collectives of the algorithm to write.
    lowered
        Whether to write it even if its messages take much longer than planned, with switches that multiply or add.

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
    chosen = chosen_collective(algorithm, collective)
    _refuse(chosen)
    most = positive(max_threadblocks, "max_threadblocks")
    copies = positive(instances, "instances")
    threads = positive(threads_per_block, "threads_per_block")
    smallest = 0 if min_bytes is None else size_of(min_bytes, "min_bytes")
    largest = None if max_bytes is None else size_of(max_bytes, "max_bytes")
    # A sender and a receiver at least, each as often as there are instances.
    if most // copies < 2:
        raise PcclError(
            f"{copies} instances need at least {2 * copies} threadblocks (max_threadblocks), not {most}"
        )
    if threads > MAX_THREADS:
        raise PcclError(f"threads_per_block is {threads}; a threadblock has at most {MAX_THREADS}")
    program = _lowered(algorithm, collective, in_place, all_ranks)
    if len(program.members) < 2:
        raise PcclError(f"{chosen.kind} in a group of one NPU sends nothing, so it needs no plan")
    box = len(program.npus) if ranks_per_box is None else positive(ranks_per_box, "ranks_per_box")
    schedule = arrange(program, box=box, most=most // copies)
    promised = promise(
        algorithm,
        collective,
        "mscclpp",
        lowered=lowered,
        delivered=program.delivered,
        batch=schedule.batches.batch_of,
    )
    resources = Resources(schedule, in_place)
    gpus = [assemble(resources, rank, copies) for rank in range(len(program.npus))]
    name = chosen.nccl_name
    fingerprint = hashlib.sha256(_ENCODER.encode([in_place, gpus])).hexdigest()[:8]
    document: Json = {
        # Executors tell plans apart by their names alone.
        "name": f"pccl_{name}_{len(gpus)}_{fingerprint}",
        "collective": name,
        "protocol": "Simple",
        "inplace": in_place,
        "reuse_resources": False,
        "gpus": gpus,
        "num_threads_per_block": threads,
        "use_double_scratch_buffer": False,
        "buffer_alignment": ALIGNMENT,
        "min_message_size": smallest,
        "max_message_size": _largest(
            gpus, chosen.spreads and not chosen.collects, smallest, largest
        ),
        "pccl": _about(program, resources.unit),
    }
    text = _render(document)
    # Read back from the text: what is tried is what the loader will see.
    plan = parse(text)
    checked = _try(plan, copies)
    with replacing(path) as file:
        file.write(f"{text}\n".encode())
    facts = promised.facts | _facts(plan, schedule.batches) | program.group_facts
    return facts | program.padding_facts | {"checked": checked}


def fit(algorithm: Algorithm, quick: bool = False) -> Picoseconds:
    """How long it takes as messages; raises with the reason if the runtime has no room for it.

    If it has to be `quick`, messages are not replayed that are sent one by one.
    """
    times = [algorithm.duration if quick else Picoseconds(0)]
    for which, chosen in enumerate(algorithm.collectives):
        _refuse(chosen)
        program = _lowered(algorithm, which)
        schedule = arrange(program, box=len(program.npus), most=MOST_THREADBLOCKS)
        joined = len(schedule.batches) < len(program.messages)
        if not quick or joined or algorithm.needs:
            batch = schedule.batches.batch_of
            times.append(promise(algorithm, which, "mscclpp", batch=batch).lowered)
    return max(times)


def fill(algorithm: Algorithm) -> float:
    """About which share of all operations of the fullest rank it takes if messages go one by one."""
    shares = [0.0]
    for which in range(len(algorithm.collectives)):
        program = _lowered(algorithm, which)
        shares.append(int(expected_load(program).max(initial=0)) / (MOST_THREADBLOCKS * MAX_OPS))
    return max(shares)


def _lowered(
    algorithm: Algorithm, which: int | None, in_place: bool = False, all_ranks: bool | None = None
) -> Program:
    """What the ranks do; raises if shares have nothing in common that a plan could count in."""
    program = lower(algorithm, collective=which, in_place=in_place, all_ranks=all_ranks)
    unit = chunk_bytes(program)
    held = program.input_bytes + program.output_bytes + program.scratch_bytes
    chunks = int(held.sum()) // unit
    if chunks > MOST_SHARED and not program.collective.has_one_size:
        raise too_many_chunks(program, unit, chunks, "all ranks", MOST_SHARED)
    largest = int(
        max(program.input_bytes.max(), program.output_bytes.max(), program.scratch_bytes.max())
    )
    if largest // unit >= MOST_CHUNKS:
        raise too_many_chunks(program, unit, largest // unit, "a buffer", MOST_CHUNKS)
    return program


def _refuse(chosen: Collective) -> None:
    if chosen.nccl_name is None:
        raise PcclError(
            f"no call of MSCCL++ says where the chunks of a {chosen.kind} collective lie"
        )


def _largest(gpus: list[Json], gathers: bool, smallest: int, wanted: int | None) -> int:
    """The largest message whose buffers kernels can address; the loader goes by the output of what gathers."""
    # The message has so many chunks, each of a size with which the largest buffer can be addressed.
    told = min(gpu["output_chunks" if gathers else "input_chunks"] for gpu in gpus)
    chunks = max(
        gpu[f"{buffer}_chunks"] for gpu in gpus for buffer in ("input", "output", "scratch")
    )
    limit = MOST_ADDRESSED // chunks * told
    limit -= limit % 2**20 if limit >= 2**20 else 0  # as people write it
    largest = limit if wanted is None else wanted
    if largest > limit:
        raise PcclError(
            f"max_bytes is {largest}, but kernels count the bytes of {counted(chunks, 'chunk')} with 32 bits: "
            f"up to {limit}"
        )
    if smallest > largest:
        raise PcclError(f"from min_bytes ({smallest}) to max_bytes ({largest}) there are no sizes")
    return largest


def _render(value: Json, indent: str = "\n") -> str:
    """JSON with one line for each operation, which people can read and which stays small."""
    deeper = f"{indent} "
    fields = []
    for name, item in value.items():
        if name == "ops":
            # All at once, which is much faster than one after another.
            lines = _ENCODER.encode_lines(item).decode().strip()
            text = _bracketed("[]", [lines.replace("\n", f",{deeper} ")], deeper)
        elif name in UNFOLDED:
            text = _bracketed("[]", [_render(one, f"{deeper} ") for one in item], deeper)
        else:
            text = _ENCODER.encode(item).decode()
        fields.append(f'"{name}": {text}')
    return _bracketed("{}", fields, indent)


def _bracketed(brackets: str, items: list[str], indent: str) -> str:
    between = f"{indent} "
    return f"{brackets[0]}{between}{f',{between}'.join(items)}{indent}{brackets[1]}"


def _try(plan: ExecutionPlan, parts: int) -> str:
    """Run the plan before anybody else does, and say so; operations may divide a chunk into so many parts."""
    ops = sum(len(block.ops) for gpu in plan.gpus for block in gpu.threadblocks)
    chunks = sum(sum(gpu.chunks.values()) for gpu in plan.gpus)
    if chunks * parts * BYTES_PER_CELL > free_memory():
        return f"no, with {chunks:,} chunks; 'pccl check' does, where there is memory for it"
    # Nobody wants to wait for minutes unasked.
    if ops > MOST_TRIED:
        return f"no, with {ops:,} operations; 'pccl check' does, in its time"
    refuse_wrong("plan", execute(plan))
    return CHECKED


def _about(program: Program, unit: int) -> Json:
    """What the loader has no place for, but whoever checks results must know."""
    chosen = program.collective
    about: Json = {"members": program.members.tolist()}
    root = getattr(chosen, "root", None)
    if root is not None:
        about["root"] = program.npus.tolist().index(root)
    if hasattr(chosen, "cyclic"):
        about["cyclic"] = chosen.cyclic
    if hasattr(chosen, "matrix"):
        about["matrix"] = matrix_of(program, unit)
    return about


def _facts(plan: ExecutionPlan, batches: Batches) -> dict[str, str]:
    said = facts(plan)
    del said["plan"]
    chunks = max(max(gpu.input_chunks, gpu.output_chunks) for gpu in plan.gpus)
    together = max(map(len, batches.messages), default=0)
    return {
        "ranks": f"{len(plan.gpus)}",
        "messages": f"{len(batches.staged):,}, at most {together} with one signal",
        **said,
        "sizes": f"buffers of {counted(chunks, 'chunk')}, each a multiple of {ALIGNMENT}B; "
        f"{Bytes(plan.min_message_size)} to {Bytes(plan.max_message_size)} in all",
    }
