"""Plans on MPI, between the processes that ``mpirun`` starts (extra ``mpi``).

Messages are those of the plan, over ``Isend`` and ``Irecv`` of whatever MPI is installed; arrays are NumPy's.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pccl._files import scratch_folder
from pccl.algorithm import Algorithm
from pccl.errors import RunError
from pccl.runtime import Arrays, Buffers, NumpyArrays, Rank, scripts_of
from pccl.runtime.launcher import find_mpiexec
from pccl.runtime.measure import Job, Report, join
from pccl.runtime.registry import PLACES

try:
    from mpi4py import MPI
except ImportError:
    raise RunError(
        "plans on MPI need the package mpi4py and an MPI: pip install 'pccl-synth[mpi]', or mpi4py by itself"
    ) from None

__all__ = ["Collective", "MpiTransport", "compile"]

# Seconds that a rank waits for a message.
TIMEOUT = 60.0
# A message that is not there at once is asked for more and more rarely, as others may need the core.
_FIRST_PAUSE = 1e-6
_LONGEST_PAUSE = 1e-3


def compile(algorithm: Algorithm, comm: Any = None, *, timeout: float = TIMEOUT) -> Collective:  # noqa: A001
    """Make a plan callable; all ranks do so together.

    Parameters
    ----------
    algorithm
        Any that the verifier accepts, the same on all ranks. Rank ``r`` of the communicator stands for the r-th NPU of
        its topology, in or out of the groups.
    comm
        A communicator of mpi4py; all ranks by default.
    timeout
        Seconds after which a rank gives up waiting for another.

    Examples
    --------
    One rank alone is a world of MPI, too:

    >>> import numpy as np
    >>> import pccl
    >>> import pccl.mpi
    >>> alone = pccl.topology.Topology.from_links(1, [])
    >>> all_reduce = pccl.mpi.compile(pccl.synthesize(alone, pccl.AllReduce("1MiB")))
    >>> output = np.zeros(3)
    >>> all_reduce(output, np.arange(3.0))
    >>> output.tolist()
    [0.0, 1.0, 2.0]
    """
    return Collective(algorithm, MPI.COMM_WORLD if comm is None else comm, timeout)


class Collective:
    """A plan as a function of arrays; made by :func:`compile`."""

    def __init__(self, algorithm: Algorithm, comm: Any, timeout: float) -> None:
        # Of our own, so that no message of the program is taken for one of the plan.
        self.transport = MpiTransport(comm.Dup(), timeout)
        self.scripts = scripts_of(algorithm)
        self.rank = Rank(self.scripts, self.transport)

    def __call__(self, output: Any = None, input: Any = None, *, op: str = "sum") -> None:
        """Run the plan.

        Parameters
        ----------
        output, input
            Arrays of this rank; ``None`` where the collective has none for it. A rank that is a member of several
            collectives of the plan gives lists, in the order of the plan; one that only relays gives nothing.
        op
            What sums are: ``sum``, ``prod``, ``max``, ``min`` or ``avg``.
        """
        several = isinstance(output, list | tuple) or isinstance(input, list | tuple)
        count = len(self.rank.mine)
        outputs = _listed(output, count, several)
        inputs = _listed(input, count, several)
        if len(inputs) != len(outputs):
            raise RunError(f"there are {len(inputs)} inputs and {len(outputs)} outputs")
        self.rank.run([Buffers(*pair) for pair in zip(inputs, outputs, strict=True)], op=op)


class MpiTransport:
    """The connection of one rank with the others of a communicator.

    Parameters
    ----------
    comm
        A communicator that nobody else uses.
    timeout
        Seconds after which a rank gives up waiting.
    """

    def __init__(self, comm: Any, timeout: float = TIMEOUT) -> None:
        self.comm = comm
        self.timeout = timeout
        self.rank = int(comm.Get_rank())
        self.size = int(comm.Get_size())
        self.arrays: Arrays = NumpyArrays()

    def send(self, data: Any, peer: int, tag: int) -> MpiHandle:
        """Begin to send an array."""
        return MpiHandle(self.comm.Isend(_raw(data), peer, tag), peer, self)

    def receive(self, data: Any, peer: int, tag: int) -> MpiHandle:
        """Begin to receive an array."""
        return MpiHandle(self.comm.Irecv(_raw(data), peer, tag), peer, self)

    def exchange(self, data: bytes) -> list[bytes]:
        """Give a few bytes to all ranks, and return those of all of them."""
        found: list[bytes] = self.comm.allgather(data)
        return found


class MpiHandle:
    """A message on its way."""

    def __init__(self, request: Any, peer: int, transport: MpiTransport) -> None:
        self.request = request
        self.peer = peer
        self.transport = transport

    def wait(self) -> None:
        """Return when the message has come or gone."""
        pause = _FIRST_PAUSE
        begin = time.monotonic()
        while not self.request.Test():
            if time.monotonic() - begin > self.transport.timeout:
                raise RunError(
                    f"rank {self.transport.rank} has waited {self.transport.timeout:g} s for rank {self.peer}, which "
                    "does not answer"
                )
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)


def _raw(data: Any) -> list[Any]:
    """The bytes of an array: MPI need not know its type, which may be one that it does not have."""
    return [data.view(np.uint8), MPI.BYTE]


def _listed(given: Any, count: int, several: bool) -> Sequence[Any]:
    if several:
        return given if given is not None else [None] * count
    return [given] * count


# --- pccl run --on mpi ------------------------------------------------------------------------------------------------


def run(algorithm: Algorithm, job: Job) -> Report:
    """Run a plan as one of the ranks that mpirun has started, or start as many as it takes."""
    if launched():
        return join(world_transport(job.timeout), algorithm, job)
    launcher = find_mpiexec()
    with scratch_folder() as folder:
        task = folder / "task"
        # Files of our own, read again by ourselves.
        task.write_bytes(pickle.dumps((algorithm, job)))
        ranks = ["-n", str(algorithm.topology.num_npus), sys.executable, "-m", "pccl.mpi"]
        done = subprocess.run(
            [launcher, *ranks, str(task)], capture_output=True, text=True, check=False
        )
        answer = folder / "task.report"
        if done.returncode or not answer.exists():
            said = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
            raise RunError(f"mpiexec ended with status {done.returncode}: {said[-1]}")
        report: Report = pickle.loads(answer.read_bytes())
    return report


def world_transport(timeout: float = TIMEOUT) -> MpiTransport:
    """The connection of this rank with all others."""
    return MpiTransport(MPI.COMM_WORLD.Dup(), timeout)


def launched() -> bool:
    """Whether a launcher of MPI has started this process."""
    return PLACES["mpi"].is_launched


def _main(task: Path) -> None:
    """What every rank does that was started here."""
    algorithm, job = pickle.loads(task.read_bytes())
    try:
        report = run(algorithm, job)
    except RunError as error:
        print(error, file=sys.stderr, flush=True)
        # The others may wait for this rank.
        MPI.COMM_WORLD.Abort(1)
    if report.speaks:
        task.with_suffix(".report").write_bytes(pickle.dumps(report))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
