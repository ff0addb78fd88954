"""Getting tasks done, here or by others: each is kept once it is done, and what is lost is given to another."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Protocol

from pccl.errors import PcclError, StoppedError
from pccl.tuning.tasks import Finished, Outcome, Task, perform
from pccl.units import Bytes

Progress = Callable[[int, int, str], None]

# A task that fails with its process is given to another so many times.
TRIES = 3
# Seconds between two looks at what is done.
PAUSE = 0.5


class Executor(Protocol):
    """Whoever takes work: an executor of :mod:`concurrent.futures`, or one like them, such as those of submitit."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        """Return something that will be ``done()``, has a ``result()`` then, and can be told to ``cancel()``."""


def do_all(
    tasks: Sequence[Task],
    finished: Finished,
    executor: Executor | None,
    jobs: int,
    progress: Progress,
) -> None:
    """Do what is not done yet, and keep each outcome as soon as it is there."""
    left = [task for task in tasks if not finished.has(task)]
    total = len(tasks)

    def tell(text: str) -> None:
        progress(sum(map(finished.has, tasks)), total, text)

    tell("plans")
    try:
        if executor is None and jobs == 1:
            for task in left:
                tell(f"{task.kind} {Bytes(task.size)}")
                finished.keep(perform(task))
        elif left:
            with _given(executor, jobs) as pool:
                _through(pool, left, finished, tell, renewable=executor is None)
    except KeyboardInterrupt:
        done = sum(map(finished.has, tasks))
        raise StoppedError(stopped_text(done, total)) from None
    tell("choosing")


def stopped_text(done: int, total: int) -> str:
    """What to say where somebody has had enough."""
    return f"interrupted; {done} of {total} plans are finished and kept: the same command goes on from there"


def attempt(task: Task) -> Outcome | PcclError:
    """Do a task; a mistake of the user is an answer too, which not every executor would bring back as it is."""
    try:
        return perform(task)
    except PcclError as error:
        return error


@contextmanager
def _given(executor: Executor | None, jobs: int) -> Iterator[Callable[[], Executor]]:
    """A way to get an executor: the caller's own, or processes of ours, and new ones when those are broken."""
    if executor is not None:
        yield lambda: executor
        return
    made: list[ProcessPoolExecutor] = []

    def renewed() -> Executor:
        # Not forked: threads of this process may hold locks.
        context = multiprocessing.get_context("spawn")
        with _ctrl_c_held_back():
            pool = ProcessPoolExecutor(jobs, context)
            made.append(pool)
            pool.submit(int)  # now they are started
        return pool

    try:
        yield renewed
    except BaseException:
        for pool in made:
            # What they are at is lost in any case; and this process would wait for it when it ends.
            for process in list((pool._processes or {}).values()):
                process.kill()
        raise
    finally:
        for pool in made:
            pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach: the one that starts them is told, ends them, and speaks for all."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _through(
    pool: Callable[[], Executor],
    tasks: Sequence[Task],
    finished: Finished,
    tell: Callable[[str], None],
    renewable: bool,
) -> None:
    executor = pool()
    tries = dict.fromkeys((task.key for task in tasks), 1)
    # The largest first, as they take longest; so no process is left with a long one in the end.
    pending: dict[Any, Task] = {
        executor.submit(attempt, task): task for task in sorted(tasks, key=lambda task: -task.size)
    }
    try:
        while pending:
            done = _done(pending)
            tell("plans")
            broken = False
            for future in done:
                task = pending.pop(future)
                try:
                    outcome = future.result()
                # A process that was killed, a machine that is gone: another one may do it.
                except Exception:
                    tries[task.key] += 1
                    if tries[task.key] > TRIES:
                        raise
                    # All that wait in a broken pool fail at once, and are given to a new one.
                    if renewable and not broken:
                        executor = pool()
                        broken = True
                    pending[executor.submit(attempt, task)] = task
                    continue
                if isinstance(outcome, PcclError):
                    raise outcome
                finished.keep(outcome)
                tell(f"{task.kind} {Bytes(task.size)}")
    finally:
        # Our own are ended with their processes.
        if not renewable:
            for future in pending:
                future.cancel()


def _done(pending: dict[Any, Task]) -> list[Any]:
    """What is done, after a pause if that is nothing."""
    if all(isinstance(future, Future) for future in pending):
        return list(wait(pending, PAUSE, FIRST_COMPLETED).done)
    # Others, such as the jobs of submitit, do not tell by themselves.
    done = [future for future in pending if future.done()]
    if not done:
        time.sleep(PAUSE)
    return done
