"""What workers do in the tests of the watchdog, which start them as processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any


def work(task: str, say: Callable[..., None]) -> str:
    """Do what the task says, as badly as that may be."""
    say("at work", 1.0, f"about {task}")
    if task == "hang":
        _sleep()
    if task == "die":
        os._exit(3)
    if task == "eat":
        return str(len(_memory()))
    return task.upper()


def _sleep() -> None:
    time.sleep(600)


def _memory() -> Any:
    try:
        return bytearray(2**34)
    except MemoryError:
        return "refused"
