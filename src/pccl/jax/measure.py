"""``pccl run --on jax``: a plan on the devices that JAX has, or on as many virtual ones of the CPU as it takes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from pccl.algorithm import Algorithm
from pccl.errors import RunError
from pccl.jax import Collective
from pccl.jax.tables import slots_of
from pccl.runtime.checking import trials
from pccl.runtime.measure import Job, Outcome, Report
from pccl.runtime.sizes import script_of

_FLAG = "--xla_force_host_platform_device_count"


def run(algorithm: Algorithm, job: Job) -> Report:
    """Run a plan in JAX."""
    collective = Collective(algorithm, "ranks")
    mesh = Mesh(_devices(collective.scripts.ranks), ("ranks",))
    if job.dtype in ("int64", "uint64", "float64"):
        jax.config.update("jax_enable_x64", True)
    return Report(tuple(_outcome(collective, mesh, elements, job) for elements in job.elements))


def _devices(count: int) -> Any:
    flags = os.environ.get("XLA_FLAGS", "")
    # Read when JAX is first asked for its devices; where there are real ones, it does nothing.
    if _FLAG not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {_FLAG}={count}".strip()
    devices = jax.devices()
    if len(devices) < count:
        raise RunError(f"the plan is for {count} ranks, but JAX has {len(devices)} devices")
    return np.array(devices[:count])


def _outcome(collective: Collective, mesh: Mesh, elements: Sequence[int], job: Job) -> Outcome:
    scripts = collective.scripts
    lengths = _lengths(collective, elements)
    found = trials(scripts, elements, op=job.op, dtype=job.dtype, seed=job.seed)
    inputs = [np.zeros((scripts.ranks, length), found[0].input(0).dtype) for length in lengths]
    slot_of = slots_of(scripts)
    for part, trial in enumerate(found):
        for member, rank in enumerate(trial.members):
            mine = trial.input(member)
            inputs[slot_of[rank][part]][rank, : len(mine)] = mine
    spec = PartitionSpec("ranks")

    def on_device(*rows: Any) -> tuple[Any, ...]:
        outputs = collective(*(row[0] for row in rows), op=job.op)
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        return tuple(output[None] for output in several)

    program = jax.jit(jax.shard_map(on_device, mesh=mesh, in_specs=spec, out_specs=spec))
    outputs = [np.asarray(output) for output in program(*inputs)]
    wrong = [
        sum(
            trial.wrong(member, outputs[slot_of[rank][part]][rank])
            for member, rank in enumerate(trial.members)
        )
        for part, trial in enumerate(found)
    ]
    for _ in range(job.warmup):
        jax.block_until_ready(program(*inputs))
    begin = time.perf_counter()
    for _ in range(job.iterations):
        jax.block_until_ready(program(*inputs))
    return Outcome((time.perf_counter() - begin) / max(job.iterations, 1), tuple(wrong))


def _lengths(collective: Collective, elements: Sequence[int]) -> list[int]:
    """The lengths of the inputs of a device, with which the collectives have so many elements."""
    scripts = collective.scripts
    slot_of = slots_of(scripts)
    found = [0] * max(map(len, slot_of))
    for rank, mine in enumerate(slot_of):
        rooms = script_of(scripts, rank, elements).rooms
        for part, slot in mine.items():
            found[slot] = max(found[slot], rooms[part].input)
    if collective.elements(*found) != list(elements):
        raise RunError(
            "on JAX, the inputs of all devices have one length; take a size that divides into equal shares, and "
            "collectives of equal sizes"
        )
    return found
