"""Local processes that are the ranks of a plan: started once, then given one task after another.

Every process is connected with this one by a pipe. If one dies, or fails, the others are told by the transport, and the
task ends with one error.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from pccl._files import removed_if_stopped
from pccl._lazy import load_target
from pccl.errors import InternalError, PcclError, RunError

# What ranks say to the process that has started them.
_MEET = "meet"
_DONE = "done"
_FAILED = "failed"
# Seconds for which ranks may be late with an error, after the timeout of the transport.
_GRACE = 5.0
# Seconds in which ranks end that are told to.
_FAREWELL = 2.0


class _DeathError(RunError):
    """A process has ended by itself, or was ended."""


class Pool:
    """Ranks as processes of this machine, for one task after another.

    Parameters
    ----------
    size
        How many.
    connect
        What makes the transport of a rank, as ``module:function``: called with the rank, how many there are, a function
        that gives a value to all ranks and returns those of all, and the timeout.
    timeout
        Seconds after which a rank gives up waiting for another.

    Attributes
    ----------
    errors
        By rank, how those have failed that have.

    Examples
    --------
    >>> with Pool(2, "pccl.runtime.pool:connect_sockets", timeout=20) as pool:
    ...     pool.run("pccl.runtime.pool:rank_and_size")
    [(0, 2), (1, 2)]
    """

    def __init__(self, size: int, connect: str, timeout: float = 60.0) -> None:
        self.size = size
        self.timeout = timeout
        context = _context(connect)
        self._pipes: list[Connection] = []
        self._processes = []
        self.broken = False
        self.errors: dict[int, BaseException] = {}
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, size, theirs, connect, timeout), daemon=True
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        try:
            self._collect()
        except BaseException as error:
            self.__exit__(type(error))
            raise

    @property
    def processes(self) -> tuple[int, ...]:
        """The numbers that the system has for the ranks."""
        return tuple(process.pid or 0 for process in self._processes)

    def run(self, task: str, *args: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Let all ranks do a task, and return what they return.

        Parameters
        ----------
        task
            What to do, as ``module:function``: called with the transport of the rank, and with what follows.
        *args
            For all ranks.
        each
            One more argument, another one for every rank.
        """
        if self.broken:
            raise RunError("the ranks have failed before; start new ones")
        for rank, pipe in enumerate(self._pipes):
            own = () if each is None else (each[rank],)
            with contextlib.suppress(OSError):
                pipe.send((task, (*args, *own)))
        return self._collect()

    def close(self, patience: float = _FAREWELL) -> None:
        """End all processes, which have so many seconds to do so by themselves."""
        self.broken = True
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        deadline = time.monotonic() + patience
        for process in self._processes:
            process.join(max(deadline - time.monotonic(), 0))
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in self._pipes:
            pipe.close()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # Who has had enough waits for nobody.
        self.close(0.0 if kind is KeyboardInterrupt else _FAREWELL)

    def _collect(self) -> list[Any]:
        """What all ranks return; raises if one fails, when all have said so or it has taken too long."""
        found: dict[int, Any] = {}
        errors = self.errors
        met: dict[int, Any] = {}
        pending = set(range(self.size))
        deadline: float | None = None
        while pending:
            by_pipe: dict[Any, int] = {self._pipes[rank]: rank for rank in pending}
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            ready = wait(list(by_pipe), left)
            if not ready:
                break
            for pipe in ready:
                rank = by_pipe[pipe]
                try:
                    kind, value = self._pipes[rank].recv()
                except (EOFError, OSError):
                    kind, value = _FAILED, _DeathError(self._obituary(rank))
                if kind == _MEET:
                    met[rank] = value
                    continue
                pending.discard(rank)
                (found if kind == _DONE else errors)[rank] = value
            if len(met) == self.size:
                for pipe in self._pipes:
                    pipe.send([met[rank] for rank in range(self.size)])
                met = {}
            # The others learn of it through the transport; they have their time for that.
            if errors and deadline is None:
                deadline = time.monotonic() + self.timeout + _GRACE
        if errors or pending:
            self.broken = True
            raise _worst(errors, pending)
        return [found[rank] for rank in range(self.size)]

    def _obituary(self, rank: int) -> str:
        process = self._processes[rank]
        process.join(1)
        code = process.exitcode
        if code is not None and code < 0:
            return f"rank {rank} has died ({signal.Signals(-code).name})"
        return f"rank {rank} has died (exit code {code})"


def _worst(errors: dict[int, BaseException], pending: set[int]) -> BaseException:
    """One error for all: a bug of ours, or a rank that has died, says more than what followed from it elsewhere."""
    silent = f"ranks {', '.join(map(str, sorted(pending)))} do not answer"
    if not errors:
        return RunError(silent)
    in_turn = [error for _, error in sorted(errors.items())]
    bugs = [error for error in in_turn if not isinstance(error, PcclError)]
    dead = [error for error in in_turn if isinstance(error, _DeathError)]
    first = (bugs + dead + in_turn)[0]
    return RunError(f"{first}; {silent}") if pending and not bugs else first


def _context(connect: str) -> Any:
    """How processes are started: as copies of one that has loaded what they need, where that can be."""
    methods = multiprocessing.get_all_start_methods()
    if "forkserver" not in methods:
        return multiprocessing.get_context("spawn")
    # Where the one meets those that it starts.
    removed_if_stopped(multiprocessing.util.get_temp_dir())
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, connect.partition(":")[0]])
    return context


def _serve(rank: int, size: int, pipe: Connection, connect: str, timeout: float) -> None:
    """What a process does until it is told to end."""
    # Ctrl-C reaches all processes of a terminal; the one that has started us tells us what follows from it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def meet(value: Any) -> list[Any]:
        pipe.send((_MEET, value))
        found: list[Any] = pipe.recv()
        return found

    transport: Any = None
    try:
        transport = load_target(connect)(rank, size, meet, timeout)
        pipe.send((_DONE, None))
        while (task := pipe.recv()) is not None:
            name, args = task
            pipe.send((_DONE, load_target(name)(transport, *args)))
        if hasattr(transport, "close"):
            transport.close()
    except (EOFError, ConnectionError):
        # Nobody is left to tell.
        os._exit(1)
    except BaseException as error:
        _fail(pipe, transport, error)


def _fail(pipe: Connection, transport: Any, error: BaseException) -> None:
    """Tell the other ranks and whoever has started us, and end."""
    if isinstance(error, MemoryError):
        error = RunError("a rank has no memory left; take a smaller size")
    elif not isinstance(error, PcclError):
        text = "".join(traceback.format_exception(error))
        error = InternalError(text)
    if hasattr(transport, "stop"):
        transport.stop(str(error))
    with contextlib.suppress(OSError):
        pipe.send((_FAILED, error))
    sys.stdout.flush()
    # At once: what is left of a broken connection may wait for others in its destructor.
    os._exit(1)


def connect_sockets(rank: int, size: int, meet: Callable[[Any], list[Any]], timeout: float) -> Any:
    """Connect local ranks by TCP."""
    from pccl.runtime.sockets import connect, listening

    listener = listening() if size > 1 else None
    addresses = meet(listener.getsockname() if listener else None)
    if listener is None:
        from pccl.runtime.sockets import SocketTransport

        return SocketTransport(rank, {}, timeout)
    others = {peer: address for peer, address in enumerate(addresses) if peer != rank}
    return connect(rank, listener, others, timeout)


def rank_and_size(transport: Any) -> tuple[int, int]:
    """Who this is; a task to try a pool with."""
    return transport.rank, transport.size
