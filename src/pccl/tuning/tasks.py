"""One plan of many: a task that any process on any machine can do, and what comes of it.

Tasks and outcomes are plain data, so that they travel to other processes and machines. What a task is called follows
from what it asks for: so what was done once is found again, and nothing else is taken for it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pccl._files import replacing, scratch_folder
from pccl._version import __version__
from pccl.algorithm import Algorithm, load
from pccl.bounds import lower_bound
from pccl.collective import Collective, collective_from_dict
from pccl.doctor.expectation import best_of_nccl
from pccl.errors import FormatError, PcclError
from pccl.settings import Settings
from pccl.synthesis import Entry, synthesize
from pccl.targets import TARGETS
from pccl.topology import topology_from_dict

# Transfers of an algorithm that a runtime is asked about.
MOST_ASKED = 40_000


@dataclass(frozen=True)
class Task:
    """Collectives of one kind and size, one for each process group, on one network.

    Attributes
    ----------
    topology, collectives, settings
        As plain data, see :func:`pccl.topology.topology_to_dict` and :meth:`Collective.to_dict`.
    """

    topology: dict[str, Any]
    collectives: tuple[dict[str, Any], ...]
    settings: dict[str, Any]

    @property
    def kind(self) -> str:
        """The collective."""
        return str(self.collectives[0]["kind"])

    def read(self) -> list[Collective]:
        """The collectives."""
        return [collective_from_dict(dict(data)) for data in self.collectives]

    @cached_property
    def size(self) -> int:
        """Bytes, as the size of a collective counts them."""
        return int(self.read()[0].size)

    @cached_property
    def key(self) -> str:
        """A name that no other task has."""
        asked = [self.topology, self.collectives, self.settings, __version__]
        text = json.dumps(asked, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Outcome:
    """What a task came to: figures for the index, in picoseconds, and the plan as the bytes of a ``.pccl`` file.

    Attributes
    ----------
    nccl
        What the best of NCCL's algorithms takes, for one group alone; 0 where it has none.
    """

    key: str
    time: int
    nccl: int
    bound: int
    seconds: float
    plan: bytes


def perform(task: Task) -> Outcome:
    """Do a task, anywhere."""
    topology = topology_from_dict(dict(task.topology))
    collectives = task.read()
    settings = Settings.of(**task.settings)
    algorithm = synthesize(topology, *collectives, settings=settings, log=_refuse_cut_short)
    # With switches that do no more than the runtime lets them do.
    planned_for = algorithm.topology
    bound = algorithm.bound or lower_bound(planned_for, *collectives, quick=True)
    one = collectives[0].uncut()
    try:
        today = best_of_nccl(topology, one)
        nccl = int(today.duration)
        # What people have today is a plan like any other, where a search of a few seconds finds nothing better.
        known = today if planned_for == topology else best_of_nccl(planned_for, one)
        if len(collectives) == 1 and _is_better(known, algorithm, settings):
            algorithm = known
    except PcclError:
        nccl = 0
    return Outcome(
        task.key,
        int(algorithm.duration),
        nccl,
        int(bound.value),
        algorithm.provenance.seconds,
        _as_bytes(algorithm),
    )


def _refuse_cut_short(entry: Entry) -> None:
    """Raise where a search was stopped: it would return its best so far, which is not to be taken for its result."""
    if entry.interrupted:
        raise KeyboardInterrupt


def _is_better(known: Algorithm, found: Algorithm, settings: Settings) -> bool:
    """Whether a known algorithm is faster than what was found, and the runtime has room for it."""
    if known.duration >= found.duration:
        return False
    target = None if settings.target is None else TARGETS[settings.target]
    if target is None or not target.limited:
        return True
    # To ask about more takes longer than to search.
    if len(known.transfers) > MOST_ASKED:
        return False
    try:
        target.time_of(known)
    except PcclError:
        return False
    return True


def _as_bytes(algorithm: Algorithm) -> bytes:
    with scratch_folder() as folder:
        path = folder / "plan.pccl"
        algorithm.save(path)
        return path.read_bytes()


@dataclass(frozen=True)
class Finished:
    """Outcomes in a folder: each in a file of its own, written whole or not at all, so that none is ever lost."""

    folder: Path

    def has(self, task: Task) -> bool:
        """Whether a task is done."""
        return self._facts(task.key).exists()

    def keep(self, outcome: Outcome) -> None:
        """Write an outcome down; the figures last, because they say that it is there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self._plan(outcome.key)) as file:
            file.write(outcome.plan)
        facts = asdict(outcome)
        del facts["plan"]
        with replacing(self._facts(outcome.key)) as file:
            file.write(json.dumps(facts).encode())

    def algorithm(self, task: Task) -> Algorithm:
        """The plan of a task that is done."""
        return load(self._plan(task.key))

    def figures(self, task: Task) -> dict[str, Any]:
        """The figures of a task that is done."""
        path = self._facts(task.key)
        try:
            found: dict[str, Any] = json.loads(path.read_text())
        except ValueError as error:
            raise FormatError(
                f"{path} is corrupted: {error}; delete it to have it done again"
            ) from None
        return found

    def _plan(self, key: str) -> Path:
        return self.folder / f"{key}.pccl"

    def _facts(self, key: str) -> Path:
        return self.folder / f"{key}.json"
