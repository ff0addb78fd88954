"""Processes that work on one thing after another, each with a limit; one that hangs or dies is replaced.

A worker says what it is about to do and for how long at most. One that says nothing for longer writes down where it is,
and is ended.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from pccl._lazy import load_target

# Seconds for what comes before the first word: imports, and on a new machine all kernels.
_BEGIN = 900.0
# Seconds that a process has to write down where it hangs.
_LAST_WORDS = 1.0
_TICK = 1.0


@dataclass(frozen=True)
class Answered:
    """A task is done."""

    task: Any
    answer: Any


@dataclass(frozen=True)
class Lost:
    """A worker hung on a task, or died of it.

    Attributes
    ----------
    hung
        Whether it hung.
    stage, about
        What it said last that it would do, and with what.
    seconds
        For how long it had said nothing.
    stack
        Where it was, if it could still tell.
    code
        With which status it ended.
    """

    task: Any
    hung: bool
    stage: str
    about: Any
    seconds: float
    stack: str
    code: int | None


@dataclass
class Worker:
    """A process, and what it said last."""

    process: Any
    pipe: Connection
    stacks: Path
    task: Any = None
    stage: str = "beginning"
    about: Any = None
    since: float = field(default_factory=time.monotonic)
    limit: float = _BEGIN

    def hear(self, stage: str, limit: float, about: Any) -> None:
        """Note what it says that it is about to do."""
        self.stage = stage
        self.limit = limit
        self.about = about
        self.since = time.monotonic()

    @property
    def hangs(self) -> bool:
        """Whether it has taken longer than it said."""
        return time.monotonic() - self.since > self.limit

    def give(self, task: Any) -> None:
        """Have it work on something."""
        self.task = task
        self.hear("beginning", _BEGIN, None)
        self.pipe.send(task)


class Watchdog:
    """Workers that are watched.

    Parameters
    ----------
    work
        The function, as ``module:function``, that takes a task and a function to say what comes next:
        ``say(stage, seconds, about)``.
    tasks
        What to work on; the next is asked for when a worker has nothing to do.
    jobs
        How many processes.
    memory
        Bytes of addresses that a process may have.
    begin
        A function that each process calls before its first task.
    """

    def __init__(
        self,
        work: str,
        tasks: Iterator[Any],
        *,
        jobs: int = 2,
        memory: int = 6 * 2**30,
        begin: str = "",
    ) -> None:
        self.work = work
        self.tasks = tasks
        self.jobs = jobs
        self.memory = memory
        self.begin = begin
        self._workers: list[Worker] = []
        self._started = 0
        self._exhausted = False

    def run(self) -> Iterator[Answered | Lost | None]:
        """Yield what comes of each task, and None about once a second."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                for _ in range(self.jobs):
                    self._start(Path(folder))
                while self._workers:
                    ready = wait([worker.pipe for worker in self._workers], _TICK)
                    yield None
                    for worker in list(self._workers):
                        event = self._attend(worker, worker.pipe in ready)
                        if event is not None:
                            yield event
                        if isinstance(event, Lost) and not self._exhausted:
                            self._start(Path(folder))
            finally:
                for worker in list(self._workers):
                    self._end(worker)

    def _start(self, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._started += 1
        stacks = folder / f"worker{self._started}"
        ours, theirs = context.Pipe()
        given = (theirs, self.work, self.begin, self.memory, stacks)
        process = context.Process(target=_serve, args=given, daemon=True)
        process.start()
        theirs.close()
        self._workers.append(Worker(process, ours, stacks))

    def _end(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.process.kill()
        worker.process.join()

    def _attend(self, worker: Worker, speaks: bool) -> Answered | Lost | None:
        """Hear what a worker says, and give it something to do; return what came of its task, if anything did."""
        if not speaks:
            return self._lost(worker, hung=True) if worker.hangs else None
        try:
            kind, *rest = worker.pipe.recv()
        except (EOFError, OSError):
            return self._lost(worker, hung=False)
        if kind == "stage":
            worker.hear(*rest)
            return None
        event = Answered(worker.task, rest[0]) if kind == "answer" else None
        task = next(self.tasks, None)
        if task is None:
            self._exhausted = True
            self._end(worker)
        else:
            worker.give(task)
        return event

    def _lost(self, worker: Worker, hung: bool) -> Lost:
        seconds = time.monotonic() - worker.since
        # Before it has opened its file, the signal would end it.
        if hung and worker.stacks.exists():
            os.kill(worker.process.pid, signal.SIGUSR1)
            time.sleep(_LAST_WORDS)
        if not hung:
            worker.process.join()
        code = worker.process.exitcode
        self._end(worker)
        stack = worker.stacks.read_text() if worker.stacks.exists() else ""
        return Lost(worker.task, hung, worker.stage, worker.about, seconds, stack, code)


# --- in the process ---------------------------------------------------------------------------------------------------


def _serve(pipe: Connection, work: str, begin: str, memory: int, stacks: Path) -> None:
    """Work on what comes through the pipe until that is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with stacks.open("w") as file:
        # Also of crashes; and both work while a kernel runs.
        faulthandler.enable(file)
        faulthandler.register(signal.SIGUSR1, file)
        warnings.simplefilter("error")

        def say(stage: str, seconds: float, about: Any = None) -> None:
            pipe.send(("stage", stage, seconds, about))

        function = load_target(work)
        if begin:
            load_target(begin)()
        pipe.send(("ready",))
        while True:
            try:
                task = pipe.recv()
            except EOFError:
                return
            try:
                pipe.send(("answer", function(task, say)))
            except BaseException:
                # Whoever judges answers for all that may happen; this is beyond him.
                file.write(traceback.format_exc())
                raise
