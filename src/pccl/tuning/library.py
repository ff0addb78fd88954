"""``tune``: a folder of plans for a machine, with an index that says which serves which sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pccl._arrays import Floats
from pccl._files import replacing
from pccl._version import __version__
from pccl.algorithm import Algorithm, load
from pccl.analysis import of_size, size_range
from pccl.collective import Collective
from pccl.errors import PcclError
from pccl.formats import export
from pccl.settings import Settings
from pccl.topology import Topology, topology_to_dict
from pccl.tuning.choice import fewest, split, times_of
from pccl.tuning.tasks import Finished, Task
from pccl.tuning.work import Executor, Progress, do_all
from pccl.units import Bytes

INDEX = "index.json"
PAGE = "index.html"
# Where finished plans wait until they are chosen from.
WORK = "work"
LOSS = 0.02
# From one size to the next.
STEP = 4
# Seconds for one plan, after its first pass.
TIME_LIMIT = 4.0
# What a runtime reads beside the .pccl file: the format and its suffix.
RUNTIMES: dict[str, tuple[str, str] | None] = {
    "torch": None,
    "mscclpp": ("mscclpp", ".json"),
    "msccl": ("msccl", ".xml"),
}


@dataclass(frozen=True)
class Plan:
    """A plan of the library, and the sizes that it serves: from `first` up to, but without, `end`.

    Attributes
    ----------
    file
        The ``.pccl`` file in the folder.
    runtime_file
        The file for the runtime; empty if that reads ``.pccl`` files, or could not take the plan.
    group
        The NPUs, in the order of their ranks; None for all of them.
    made_for
        The size that it was found at.
    end
        None for the last one, which serves all larger sizes.
    """

    file: str
    runtime_file: str
    collective: str
    group: tuple[int, ...] | None
    made_for: int
    first: int
    end: int | None
    chunks: int
    refusal: str = ""


@dataclass(frozen=True)
class Point:
    """One size on a curve; times are in picoseconds, `nccl` is 0 where NCCL has no algorithm."""

    collective: str
    size: int
    plan: str
    time: int
    best: int
    nccl: int
    bound: int


@dataclass(frozen=True)
class Library:
    """What is in a folder of plans."""

    folder: Path
    topology: str
    target: str
    plans: tuple[Plan, ...]
    curves: tuple[Point, ...]
    done_before: int = 0


def tune(
    topology: Topology,
    collectives: Sequence[Collective | Sequence[Collective]],
    folder: str | Path,
    *,
    sizes: str = "1KiB:1GiB",
    target: str = "torch",
    step: int = STEP,
    loss: float = LOSS,
    settings: Settings | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Library:
    """Find plans for collectives at all sizes, keep as few as lose little, and write them to a folder.

    Whatever is finished is kept in the folder at once: the same call goes on where it was stopped.

    Parameters
    ----------
    topology
        The machine.
    collectives
        What to plan for, of any size; several in a list run at the same time, one in each process group.
    folder
        Where to write; made if it is not there.
    sizes, step
        From which size to which, each so many times as large as the one before.
    target
        The runtime: ``"torch"``, ``"mscclpp"`` or ``"msccl"``.
    loss
        The share of time that may be lost by having fewer plans.
    settings
        How to search for each plan.
    jobs
        Processes on this machine.
    executor
        Where to do the work instead: any executor of :mod:`concurrent.futures`, such as ``Client.get_executor()`` of
        Dask, or one of submitit.
    progress
        Called with (plans done, plans in all, what is going on).

    Examples
    --------
    >>> import pccl, tempfile
    >>> ring = pccl.topology.ring(4)
    >>> found = tune(ring, [pccl.AllGather("1MiB")], tempfile.mkdtemp(), sizes="1KiB:1MiB", step=32)
    >>> found.plans[0].first, found.plans[-1].end
    (1024, None)
    """
    if target not in RUNTIMES:
        raise PcclError(
            f"there is no runtime {target!r} to tune for; there are {', '.join(RUNTIMES)}"
        )
    if not 0 <= loss < 1:
        raise PcclError(f"the loss must be a share from 0 to 1, such as 0.02, not {loss!r}")
    path = Path(folder)
    chosen = replace(Settings.read(settings, Settings(time_limit=TIME_LIMIT)), target=target)
    # Groups keep to themselves: who takes no part in a call cannot pass anything on.
    together = [
        [one] if isinstance(one, Collective) else [replace(each, confined=True) for each in one]
        for one in collectives
    ]
    if not together or not all(together):
        raise PcclError("there is no collective to plan for")
    # Before the network is written into every task.
    for one in (one for group in together for one in group):
        one.check_manageable(len(one.members(topology.npus)))
    all_sizes = [int(size) for size in size_range(sizes, step)]
    tasks = [[_task(topology, group, size, chosen) for size in all_sizes] for group in together]
    _refuse_twins([row[0] for row in tasks])
    finished = Finished(path / WORK)
    wanted = [task for row in tasks for task in row]
    before = sum(finished.has(task) for task in wanted)
    do_all(wanted, finished, executor, jobs, progress or (lambda *_: None))
    return _written(path, topology, target, tasks, finished, loss, before)


def _task(
    topology: Topology, collectives: Sequence[Collective], size: int, settings: Settings
) -> Task:
    asked = [one.uncut() for one in of_size(topology, collectives, Bytes(size))]
    given = {name: value for name, value in asdict(settings).items() if value is not None}
    return Task(topology_to_dict(topology), tuple(one.to_dict() for one in asked), given)


def _refuse_twins(tasks: Sequence[Task]) -> None:
    seen = set()
    for task in tasks:
        if task.key in seen:
            raise PcclError(f"{task.kind} is asked for twice")
        seen.add(task.key)


# --- choosing and writing ---------------------------------------------------------------------------------------------


def _written(
    path: Path,
    topology: Topology,
    target: str,
    tasks: Sequence[Sequence[Task]],
    finished: Finished,
    loss: float,
    before: int,
) -> Library:
    plans: list[Plan] = []
    curves: list[Point] = []
    for row in tasks:
        found = _Found.of(row, finished)
        sizes = found.sizes
        for part in fewest(found.times, loss):
            name = f"{found.kind}{_number(plans, found.kind)}"
            end = sizes[part.last + 1] if part.last + 1 < len(sizes) else None
            made = _plans(path, name, found.algorithms[part.plan], sizes[part.first], end)
            # What is smaller than all sizes is served by the first plan, what is larger by the last.
            least = sizes[part.first] if part.first else None
            plans += [_exported(path, plan, target, least) for plan in made]
            served = range(part.first, part.last + 1)
            curves += [found.point(part.plan, place, plans[-1].file) for place in served]
    library = Library(path, topology.name, target, tuple(plans), tuple(curves), before)
    _clear_others(path, plans)
    with replacing(path / INDEX) as file:
        file.write(json.dumps(document(library), indent=1).encode())
    from pccl.tuning.page import write_page

    write_page(library, path / PAGE)
    return library


@dataclass(frozen=True)
class _Found:
    """What was found for one collective: a plan at each size, its figures, and what each takes at every size."""

    kind: str
    sizes: list[int]
    algorithms: list[Algorithm]
    figures: list[dict[str, Any]]
    times: Floats

    @classmethod
    def of(cls, row: Sequence[Task], finished: Finished) -> _Found:
        """Read what is finished."""
        sizes = [task.size for task in row]
        algorithms = [finished.algorithm(task) for task in row]
        figures = [finished.figures(task) for task in row]
        times = times_of(algorithms, sizes)
        # At its own size a plan takes what was found, whatever order the simulator would serve in.
        for place, own in enumerate(figures):
            times[place, place] = min(times[place, place], float(own["time"]))
        return cls(row[0].kind, sizes, algorithms, figures, times)

    def point(self, plan: int, place: int, file: str) -> Point:
        """One size on the curve, where it is served by that plan."""
        own = self.figures[place]
        return Point(
            collective=self.kind,
            size=self.sizes[place],
            plan=file,
            time=int(self.times[plan, place]),
            best=int(self.times[:, place].min()),
            nccl=int(own["nccl"]),
            bound=int(own["bound"]),
        )


def _number(plans: Sequence[Plan], kind: str) -> str:
    """What tells plans for one collective apart: how many there are before it."""
    earlier = {plan.file.partition("-group")[0] for plan in plans if plan.collective == kind}
    return f"-{len({name.removesuffix('.pccl') for name in earlier})}"


def _plans(path: Path, name: str, algorithm: Algorithm, first: int, end: int | None) -> list[Plan]:
    """Write a plan, or one for each of its groups."""
    plans = []
    parts = split(algorithm)
    for number, part in enumerate(parts):
        file = f"{name}.pccl" if len(parts) == 1 else f"{name}-group{number}.pccl"
        part.save(path / file)
        collective = part.collectives[0]
        plans.append(
            Plan(
                file=file,
                runtime_file="",
                collective=collective.kind,
                group=None if collective.group is None else tuple(collective.ranks),
                made_for=int(collective.size),
                first=first,
                end=end,
                chunks=collective.pieces,
            )
        )
    return plans


def _exported(path: Path, plan: Plan, target: str, least: int | None) -> Plan:
    """The plan with its file for the runtime, which says for which sizes it is; or with the reason for having none."""
    runtime = RUNTIMES[target]
    if runtime is None:
        return plan
    format_name, suffix = runtime
    file = f"{plan.file.removesuffix('.pccl')}{suffix}"
    options: dict[str, Any] = {"min_bytes": None if least is None else Bytes(least)}
    if plan.end is not None:
        options["max_bytes"] = Bytes(plan.end - 1)
    if plan.group is not None:
        options["all_ranks"] = True
    try:
        export(load(path / plan.file), path / file, format_name, **options)
    except PcclError as error:
        return replace(plan, refusal=str(error))
    return replace(plan, runtime_file=file)


def _clear_others(path: Path, plans: Sequence[Plan]) -> None:
    """Delete plans of an earlier index, which readers of the folder would take for ours."""
    kept = {name for plan in plans for name in (plan.file, plan.runtime_file)}
    index = path / INDEX
    if not index.exists():
        return
    try:
        earlier = json.loads(index.read_text())["plans"]
    except (ValueError, KeyError, TypeError):
        return
    for plan in earlier:
        for name in (plan.get("file"), plan.get("runtime_file")):
            # Only names that this function could have written: an index may be anybody's.
            if name and name not in kept and Path(name).name == name:
                (path / name).unlink(missing_ok=True)


def document(library: Library) -> dict[str, Any]:
    """What the index says, as plain data."""
    return {
        "format": "pccl-plans",
        "version": 1,
        "made_by": f"pccl {__version__}",
        "topology": library.topology,
        "target": library.target,
        "plans": [asdict(plan) for plan in library.plans],
        "curves": [asdict(point) for point in library.curves],
    }


def gain(points: Sequence[Point]) -> float:
    """How many times as fast as NCCL plans are, on average over sizes; 1 where NCCL has no algorithm.

    Examples
    --------
    >>> gain([Point("all-gather", 1, "a", 10, 10, 20, 5), Point("all-gather", 2, "a", 10, 10, 5, 5)])
    1.0
    """
    ratios = [point.nccl / point.time for point in points if point.nccl and point.time]
    return float(np.exp(np.mean(np.log(ratios)))) if ratios else 1.0
