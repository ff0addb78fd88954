"""Runs plans on virtual devices and prints how many elements are wrong: ``python -m tests.jax.devices 8``.

A process of its own, as JAX must know the number of devices before it is first used.
"""

from __future__ import annotations

import json
import os
import sys

COUNT = int(sys.argv[1])
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={COUNT}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, PartitionSpec  # noqa: E402

import pccl  # noqa: E402
import pccl.jax  # noqa: E402
from pccl.runtime.checking import trials  # noqa: E402

MESH = Mesh(np.array(jax.devices()), ("x",))
NETWORK = pccl.topology.mesh(COUNT // 4, 4)
ROW = range(4, 8)
HALVES = [range(COUNT // 2), range(COUNT // 2, COUNT)]

# Collectives, the length of the input of each device, the operation, and the type.
CASES = {
    8: [
        ([pccl.AllReduce("8kB", chunks=2)], 37, "sum", "int32"),
        ([pccl.AllReduce("8kB")], 24, "max", "bfloat16"),
        ([pccl.AllGather("8kB")], 5, "sum", "uint8"),
        ([pccl.ReduceScatter("8kB")], 27, "avg", "float32"),
        ([pccl.AllToAll("8kB")], 24, "sum", "float16"),
        ([pccl.AllToAll("8kB", group=ROW, chunks=4)], 16, "sum", "int32"),
        ([pccl.AllReduce("8kB", group=half, chunks=2) for half in HALVES], 9, "prod", "int32"),
        ([pccl.Broadcast("8kB", root=3)], 9, "sum", "int32"),
    ],
    16: [
        ([pccl.AllToAll("64kB", group=ROW, chunks=4)], 40, "sum", "int32"),
        ([pccl.AllGather("64kB")], 3, "sum", "int32"),
    ],
}


def wrong(collectives, length, op, dtype):
    """Run the collectives at once; how many elements are wrong."""
    plan = pccl.synthesize(NETWORK, *collectives, effort="fast")
    run = pccl.jax.compile(plan, "x")
    found = trials(run.scripts, run.elements(length), op=op, dtype=dtype)
    inputs = np.zeros((COUNT, length), jnp.dtype(dtype))
    for trial in found:
        for member, rank in enumerate(trial.members):
            inputs[rank, : len(trial.input(member))] = trial.input(member)
    outputs = on_devices(lambda mine: run(mine, op=op))(inputs)
    return sum(
        trial.wrong(member, outputs[rank])
        for trial in found
        for member, rank in enumerate(trial.members)
    )


def on_devices(function):
    """The function on every row, each on a device of its own."""
    spec = PartitionSpec("x")
    rows = jax.shard_map(
        lambda row: function(row[0])[None], mesh=MESH, in_specs=spec, out_specs=spec
    )
    return lambda values: np.asarray(jax.jit(rows)(values))


def gradient():
    """What an all-gather passes back to each device: the sum of what all of them make of its share."""
    gather = pccl.jax.compile(pccl.synthesize(NETWORK, pccl.AllGather("8kB")), "x")
    weights = jnp.arange(COUNT, dtype=jnp.float32)

    def loss(share):
        return jnp.sum(gather(share) * weights[jax.lax.axis_index("x")])

    found = on_devices(jax.grad(loss))(np.ones((COUNT, 1), np.float32))
    return found.ravel().tolist()


if __name__ == "__main__":
    print(json.dumps([wrong(*case) for case in CASES[COUNT]]))
    if COUNT == 8:
        print(json.dumps(gradient()))
