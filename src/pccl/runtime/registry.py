"""Where plans can be run. To add a place, add a line below.

This module imports nothing heavy: what runs a plan is loaded when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pccl._lazy import load_target

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.runtime.measure import Job, Report


@dataclass(frozen=True)
class Place:
    """Something that runs plans.

    Attributes
    ----------
    name, about
        What to call it, and a line for people.
    runs
        The function, as ``module:function``, that takes an algorithm and a job, and returns a report. Started by a
        launcher such as ``torchrun`` it joins the other ranks instead of starting some.
    variables
        What such launchers set in the environment of the ranks that they start.
    """

    name: str
    about: str
    runs: str
    variables: tuple[str, ...] = ()

    @property
    def is_launched(self) -> bool:
        """Whether a launcher has started this process as one of the ranks."""
        return any(name in os.environ for name in self.variables)

    def run(self, algorithm: Algorithm, job: Job) -> Report:
        """Run a plan."""
        found: Callable[[Algorithm, Job], Report] = load_target(self.runs)
        return found(algorithm, job)


PLACES = {
    place.name: place
    for place in (
        Place("numpy", "all ranks in one process", "pccl.runtime.measure:run_in_one_process"),
        Place(
            "processes", "a process a rank, joined by TCP", "pccl.runtime.measure:run_in_processes"
        ),
        Place(
            "mpi",
            "a process a rank, over MPI, or the job of mpirun",
            "pccl.mpi:run",
            # MPICH and those like it, Open MPI, SLURM.
            ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"),
        ),
        Place("jax", "the devices of JAX, or virtual ones", "pccl.jax.measure:run"),
        Place(
            "torch",
            "torch.distributed: gloo, or the job of torchrun",
            "pccl.torch.measure:run",
            ("WORLD_SIZE",),
        ),
        Place(
            "cuda", "a process a rank, on the GPUs of this box, over CUDA IPC", "pccl.torch.ipc:run"
        ),
    )
}
