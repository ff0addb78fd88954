"""How a command ends early: on Ctrl-C or SIGTERM, at any point, within two seconds, and with what there is by then.

The first signal raises KeyboardInterrupt in the main thread, which mostly is all it takes. But where that thread is
deep in compiled code, nothing of Python runs in it until it comes back. So another thread hears of the signal too: what
has not ended after a moment of grace, it ends by itself, in the same way. A second signal ends at once.

Whoever has the last word, of the two threads, says how it ended; the other one waits for the end.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from pccl._files import remove_unfinished

__all__ = ["asked", "ending", "last_word", "program", "status", "stoppable", "undoing"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Seconds that the main thread has to come back.
GRACE = 1.2
# Seconds after which it is raised once more, and again: inside the compiler it may get lost.
PATIENCE = 0.5
# Signals within so many seconds are one: launchers and 'timeout' send several.
ONE = 0.5
# By which the handler knows that nobody has sent it: a signal that nobody uses.
_AGAIN = getattr(signal, "SIGURG", signal.SIGABRT)
# Seconds for what is good to do before the process ends, but may be held up by what the main thread is stuck in.
_BRIEF = 0.3

Ending = Callable[[], int | None]


@dataclass
class _State:
    """What a run of the program knows of its end."""

    signal: int = 0  # the first that came
    is_raised: bool = False  # which it is once, unless it gets lost
    is_due: bool = False  # it has still to be raised, as something was to be finished first
    unhurried: int = 0  # how many such things there are, one inside another
    endings: list[Ending] = field(default_factory=list)
    undos: list[Callable[[], None]] = field(default_factory=list)
    word: Any = field(default_factory=threading.RLock)  # whoever holds it has the last one
    children: dict[int, str] = field(default_factory=dict)  # processes, and when they began


_state = _State()


# --- what commands use ------------------------------------------------------------------------------------------------


def asked() -> bool:
    """Whether the program has been asked to end."""
    return bool(_state.signal)


def status() -> int:
    """The exit status of what was stopped, as shells count it."""
    return 128 + (_state.signal or signal.SIGINT)


def line_break() -> str:
    """What goes before the line that says so: a terminal shows ^C at the start of the one before."""
    is_shown = status() == 128 + signal.SIGINT and os.isatty(2)
    return "\n" if is_shown else ""


@contextmanager
def ending(finish: Ending) -> Iterator[None]:
    """While it lasts, a stop ends the command with `finish`, which says what there is and may return a status.

    It may run in either thread, whatever the other one was about to do.
    """
    _state.endings.append(finish)
    try:
        yield
    except KeyboardInterrupt:
        take_last_word()
        code = finish()
        from click.exceptions import Exit

        raise Exit(code or 0) from None
    finally:
        _state.endings.remove(finish)


@contextmanager
def last_word() -> Iterator[None]:
    """Finish something that a stop must not cut short, such as saving; the stop comes right after it."""
    _state.unhurried += 1
    # If the other thread has it already, this is where the main thread stays until the process ends.
    _state.word.acquire()
    try:
        yield
    finally:
        _state.word.release()
        _state.unhurried -= 1
    if _state.is_due and not _state.unhurried:
        _state.is_due = False
        raise KeyboardInterrupt


@contextmanager
def undoing(action: Callable[[], None]) -> Iterator[None]:
    """While it lasts, a process that is ended from the other thread does this first."""
    _state.undos.append(action)
    try:
        yield
    finally:
        _state.undos.remove(action)


# --- the program ------------------------------------------------------------------------------------------------------


@contextmanager
def stoppable() -> Iterator[None]:
    """Let both signals raise KeyboardInterrupt once, unless whoever started us has them ignored.

    Not in other threads than the main one, where signals are not ours.
    """
    is_ours = signal.getsignal(signal.SIGTERM) is _on_signal
    if is_ours or threading.current_thread() is not threading.main_thread():
        yield
        return
    global _state
    _state = _State()
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def program(run: Callable[[], Any]) -> NoReturn:
    """Be the program: run, and end the process, from the other thread if it must be."""
    # Until the very end of the process; nothing is put back.
    lasting = stoppable()
    lasting.__enter__()
    sys.excepthook = _on_uncaught
    sys.unraisablehook = _on_unraisable
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    # Written to by the signal itself, whatever the interpreter is busy with.
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(_AGAIN, _on_signal)
    threading.Thread(target=_listen, args=(reader,), name="stopping", daemon=True).start()
    try:
        run()
        code: Any = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        # While modules are loaded, Python may make another error of what stops it.
        if not asked():
            raise
        _say_interrupted()
        code = status()
    if asked():
        _state.word.acquire()
        # Not by way of the interpreter, which would wait for threads that are still at work.
        _leave(code)
    sys.exit(code)


def take_last_word() -> None:
    """For the main thread, about to say how it ended: if the other thread does so, wait for the end."""
    _state.unhurried += 1
    _state.word.acquire()


def _on_signal(number: int, frame: Any) -> None:  # noqa: ARG001
    # Once, and again only if it was; what else may send that signal is nothing to us.
    if _state.is_raised != (number == _AGAIN):
        return
    _state.is_raised = True
    _state.signal = _state.signal or number
    if _state.unhurried:
        _state.is_due = True
        return
    raise KeyboardInterrupt


def _on_uncaught(kind: type[BaseException], error: BaseException, trace: Any) -> None:
    """Where not even the program has begun, or it is over."""
    if issubclass(kind, KeyboardInterrupt):
        _say_interrupted()
        _leave(status())
    sys.__excepthook__(kind, error, trace)


def _on_unraisable(unraisable: Any) -> None:
    """What is raised where nothing can be, as in a destructor, is lost; the other thread will see to it."""
    if not isinstance(unraisable.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)


# --- the other thread -------------------------------------------------------------------------------------------------


def _listen(reader: int) -> None:
    """Wait for signals; end the process some time after the first, and at once after a second."""
    begin = 0.0
    due: list[tuple[float, Callable[[], None]]] = []
    while True:
        left = max(begin + due[0][0] - time.monotonic(), 0) if due else None
        if not select.select([reader], [], [], left)[0]:
            _, act = due.pop(0)
            act()
            continue
        number = os.read(reader, 1)[0]
        if number not in SIGNALS:
            continue
        if not begin:
            begin = time.monotonic()
            _state.signal = number
            due = [
                (PATIENCE, _raise_again),
                (2 * PATIENCE, _raise_again),
                (GRACE, _start_to_finish),
            ]
            _state.children = _descendants()
        elif time.monotonic() > begin + ONE:
            _leave(128 + number)


def _raise_again() -> None:
    # Only pretended: the handler runs in the main thread, and knows whether this is a time to be stopped.
    _thread.interrupt_main(_AGAIN)


def _start_to_finish() -> None:
    # In a thread of its own, so that a second signal is heard.
    threading.Thread(target=_finish, daemon=True).start()


def _finish() -> None:
    """End as the command would, if it could."""
    # Unless it is about to.
    with _state.word:
        _undo()
        if not _state.endings:
            _say_interrupted()
            _leave(status())
        from pccl.cli.app import status_of

        _leave(status_of(_state.endings[-1]))


def _say_interrupted() -> None:
    with suppress(OSError):
        os.write(2, f"{line_break()}interrupted\n".encode())


def _leave(code: Any) -> NoReturn:
    """End the process, and leave nothing behind."""
    _undo()
    _briefly(_flush)
    remove_unfinished()
    for pid, begun in (_state.children | _descendants()).items():
        # A number may have gone to another process since.
        if _begun(pid) == begun:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    os._exit(code if isinstance(code, int) else 1)


def _undo() -> None:
    for action in reversed(_state.undos):
        _briefly(action)


def _briefly(action: Callable[[], None]) -> None:
    """Do something, but wait for it no longer than a moment."""

    def attempt() -> None:
        with suppress(Exception):
            action()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(_BRIEF)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _descendants() -> dict[int, str]:
    """The processes that we have started, and those that they have, with the times at which they began."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        # It may end while we look.
        with suppress(OSError, IndexError):
            parents[int(folder.name)] = int(_stat(int(folder.name))[1])
    found: list[int] = [os.getpid()]
    for parent in found:
        found += [pid for pid, other in parents.items() if other == parent]
    return {pid: _begun(pid) for pid in found[1:]}


def _begun(pid: int) -> str:
    with suppress(OSError, IndexError):
        return _stat(pid)[19]
    return ""


def _stat(pid: int) -> list[str]:
    """What the system says of a process: its state, its parent, and more."""
    # The name comes before, in brackets, and may hold anything.
    return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
