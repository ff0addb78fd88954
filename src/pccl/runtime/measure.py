"""Run a plan on ranks, check every element, and measure how long it takes: what ``pccl run`` prints."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pccl.algorithm import Algorithm
from pccl.errors import RunError
from pccl.runtime.arrays import DTYPES, OPS
from pccl.runtime.checking import member_buffers, trial_buffers, trials, wrong_elements
from pccl.runtime.execute import Rank
from pccl.runtime.scripts import Scripts, scripts_of


@dataclass(frozen=True)
class Job:
    """How a plan is run.

    Attributes
    ----------
    elements
        Of every collective of the plan, once for each run to measure.
    dtype, op
        The type of the elements, and what sums are.
    in_place
        Whether input and output are one buffer, where the collective has such a form.
    iterations, warmup
        How many runs are measured, and how many go before them; the first of all is checked.
    seed
        Which numbers are sent.
    timeout
        Seconds after which a rank gives up waiting for another.
    """

    elements: tuple[tuple[int, ...], ...]
    dtype: str = "int32"
    op: str = "sum"
    in_place: bool = False
    iterations: int = 5
    warmup: int = 1
    seed: int = 0
    timeout: float = 60.0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise RunError(f"there is no dtype {self.dtype!r}; there are {', '.join(DTYPES)}")
        if self.op not in OPS:
            raise RunError(f"there is no operation {self.op!r}; there are {', '.join(OPS)}")


@dataclass(frozen=True)
class Outcome:
    """What came of runs with one number of elements.

    Attributes
    ----------
    seconds
        How long a run took.
    wrong
        Per collective: how many elements were wrong.
    """

    seconds: float
    wrong: tuple[int, ...]


@dataclass(frozen=True)
class Report:
    """An outcome for each number of elements, and whether this process is the one to tell people."""

    outcomes: tuple[Outcome, ...]
    speaks: bool = True


def measure_rank(transport: Any, scripts: Scripts, job: Job) -> list[Outcome]:
    """What one rank does: run, check its own output, then measure. All ranks do so at the same time."""
    rank = Rank(scripts, transport)
    arrays = transport.arrays
    outcomes = []
    for elements in job.elements:
        found = trials(scripts, elements, op=job.op, dtype=job.dtype, seed=job.seed)
        mine = [(found[part], found[part].members.index(rank.rank)) for part in rank.mine]
        buffers = [member_buffers(trial, member, job.in_place, arrays) for trial, member in mine]
        own = [elements[part] for part in rank.mine]
        rank.run(buffers, op=job.op, elements=own)
        wrong = [0] * len(scripts.parts)
        for part, (trial, member), pair in zip(rank.mine, mine, buffers, strict=True):
            wrong[part] = trial.wrong(member, arrays.values(pair.output))
        for _ in range(job.warmup):
            rank.run(buffers, op=job.op, elements=own)
        arrays.synchronize()
        transport.exchange(b"ready")
        begin = time.perf_counter()
        for _ in range(job.iterations):
            rank.run(buffers, op=job.op, elements=own)
        arrays.synchronize()
        seconds = (time.perf_counter() - begin) / max(job.iterations, 1)
        outcomes.append(Outcome(seconds, tuple(wrong)))
    return outcomes


def together(outcomes: Sequence[Sequence[Outcome]]) -> tuple[Outcome, ...]:
    """The outcomes of all ranks as one: the slowest counts, and what is wrong anywhere."""
    return tuple(
        Outcome(
            max(one.seconds for one in row),
            tuple(map(sum, zip(*(one.wrong for one in row), strict=True))),
        )
        for row in zip(*outcomes, strict=True)
    )


def join(transport: Any, algorithm: Algorithm, job: Job) -> Report:
    """Take part as one of the ranks that a launcher has started; all of them learn what came of it."""
    mine = measure_rank(transport, scripts_of(algorithm), job)
    said = transport.exchange(json.dumps([[one.seconds, one.wrong] for one in mine]).encode())
    ranks = [[Outcome(seconds, tuple(wrong)) for seconds, wrong in json.loads(one)] for one in said]
    return Report(together(ranks), transport.rank == 0)


# --- the ways of running ----------------------------------------------------------------------------------------------


def run_in_one_process(algorithm: Algorithm, job: Job) -> Report:
    """All ranks in this process, on NumPy, one after another."""
    from pccl.runtime.local import run_locally

    scripts = scripts_of(algorithm)
    outcomes = []
    for elements in job.elements:
        found = trials(scripts, elements, op=job.op, dtype=job.dtype, seed=job.seed)
        buffers = trial_buffers(scripts, found, in_place=job.in_place)
        run_locally(scripts, buffers, op=job.op, elements=elements)
        wrong = wrong_elements(found, buffers)
        begin = time.perf_counter()
        for _ in range(job.iterations):
            run_locally(scripts, buffers, op=job.op, elements=elements)
        seconds = (time.perf_counter() - begin) / max(job.iterations, 1)
        outcomes.append(Outcome(seconds, tuple(wrong)))
    return Report(tuple(outcomes))


def run_in_processes(algorithm: Algorithm, job: Job) -> Report:
    """Ranks as processes of this machine, joined by sockets, on NumPy."""
    return run_in_pool(algorithm, job, "pccl.runtime.pool:connect_sockets")


def run_in_pool(algorithm: Algorithm, job: Job, connect: str) -> Report:
    """Ranks as processes of this machine, connected in this way; see :class:`~pccl.runtime.pool.Pool`."""
    from pccl.runtime.pool import Pool

    scripts = scripts_of(algorithm)
    with Pool(scripts.ranks, connect, job.timeout) as pool:
        return Report(together(pool.run("pccl.runtime.measure:measure_rank", scripts, job)))
