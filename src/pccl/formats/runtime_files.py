"""What the writers for both runtimes share: options, units, and a trial before anything is saved."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import numpy as np

from pccl.errors import InternalError, PcclError
from pccl.formats.lowering import Program
from pccl.formats.machine import Problem
from pccl.units import Bytes, Size, parse, whole

# What writers say of a file that has passed its trial.
CHECKED = "run by the interpreter: exact, without races or deadlock"


def positive(value: object, name: str) -> int:
    """Return an option that counts something."""
    count = whole(value)
    if count is None or count < 1:
        raise PcclError(f"{name} must be a positive whole number, not {value!r}")
    return count


def size_of(value: Size | int, name: str) -> int:
    """Return an option that is a number of bytes."""
    return int(parse(Bytes, Bytes(value) if isinstance(value, int) else value, name))


def unit_of(program: Program, *sizes: int) -> int:
    """Return the largest number of bytes that these sizes, and all that a program moves, are multiples of."""
    m = program.messages
    c = program.copies
    moved = (m.bytes, m.read_offset, m.write_offset, m.add_offset)
    columns = (*moved, c.bytes, c.read_offset, c.write_offset)
    return gcd(*sizes, *(int(np.gcd.reduce(column)) for column in columns if len(column)))


def matrix_of(program: Program, unit: int) -> list[list[int]]:
    """What every rank sends to every other in a collective with a matrix, in chunks of `unit` bytes."""
    matrix = np.zeros((len(program.npus),) * 2, np.int64)
    sent = np.array(program.collective.matrix)  # type: ignore[attr-defined]
    matrix[np.ix_(program.members, program.members)] = sent // unit
    found: list[list[int]] = matrix.tolist()
    return found


def refuse_wrong(what: str, problems: Sequence[Problem]) -> None:
    """Raise if a file that was to be written does not do what it should."""
    if problems:
        raise InternalError(f"the {what} that was to be written is wrong: {problems[0]}")
