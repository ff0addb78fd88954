"""What the search asks of plans for runtimes that send messages: how long these take. They have room for any plan."""

from __future__ import annotations

from functools import partial

from pccl.algorithm import Algorithm
from pccl.formats.runtime_files import promise
from pccl.units import Picoseconds


def _fit(runtime: str, algorithm: Algorithm, quick: bool = False) -> Picoseconds:  # noqa: ARG001
    """How long a plan takes as messages between NPUs."""
    return promise(algorithm, None, runtime).lowered


fit_torch = partial(_fit, "torch")
fit_mpi = partial(_fit, "mpi")
fit_jax = partial(_fit, "jax")
