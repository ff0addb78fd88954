"""A plan inside a program of JAX, on eight virtual devices of the CPU: ``python examples/run_jax.py``."""

from __future__ import annotations

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

import pccl
import pccl.jax


def main() -> None:
    plan = pccl.synthesize(pccl.topology.mesh(2, 4), pccl.AllReduce("1MiB"))
    all_reduce = pccl.jax.compile(plan, "x")
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows = PartitionSpec("x")

    @jax.jit
    @jax.shard_map(mesh=mesh, in_specs=rows, out_specs=rows)
    def step(values: jax.Array) -> jax.Array:
        return all_reduce(values[0])[None] / 8

    values = np.arange(8 * 5, dtype=np.float32).reshape(8, 5)
    means = step(values)
    assert np.array_equal(np.asarray(means), np.tile(values.mean(axis=0), (8, 1)))
    print("every device has the mean:", means[0].tolist())


if __name__ == "__main__":
    main()
