"""What the writers for runtimes share: options, units, what is promised, and a trial before anything is saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np

from pccl._arrays import Ints
from pccl.algorithm import Algorithm
from pccl.algorithm.core import needs_text
from pccl.errors import InternalError, PcclError
from pccl.formats.lowering import Deliveries, Program, lowered_time
from pccl.formats.machine import Problem
from pccl.units import Bytes, Picoseconds, Size, parse, time_text, whole

# What writers say of a file that has passed its trial.
CHECKED = "run by the interpreter: exact, without races or deadlock"

# Messages that take longer than planned by more than this share are not written: the plan was for other switches.
MOST_SLOWER = 0.1
# By a share that rounds to nothing, times do not differ.
_NOTICED = 0.001


@dataclass(frozen=True)
class Promise:
    """How long a plan takes: as planned, and as the messages between NPUs that a runtime sends."""

    runtime: str
    planned: Picoseconds
    lowered: Picoseconds
    needs: tuple[str, ...] = ()

    @property
    def facts(self) -> dict[str, str]:
        """Both times, for people, and what the plan asks of switches if that is why they differ."""
        planned = time_text(self.planned)
        if not differ(self.planned, self.lowered):
            return {"time": f"{planned}, as planned and as messages between NPUs"}
        share = int(self.lowered) / max(int(self.planned), 1) - 1
        change = f"{abs(share):.1%} {'more' if share > 0 else 'less'}"
        # Another plan would do better, with fewer chunks or without what switches would have to do.
        advice = f"; a plan --for {self.runtime} suits it better" if share > MOST_SLOWER else ""
        both = f"{planned} planned, but {time_text(self.lowered)} as messages between NPUs"
        facts = {"time": f"{both} ({change}){advice}"}
        if self.needs:
            facts["needs"] = f"to be as planned, {needs_text(self.needs)}"
        return facts


def differ(planned: Picoseconds | int, lowered: Picoseconds | int) -> bool:
    """Whether people would notice that messages between NPUs do not take as long as planned.

    Examples
    --------
    >>> differ(Picoseconds(5_980_000), Picoseconds(5_979_000)), differ(Picoseconds(20_000), Picoseconds(60_000))
    (False, True)
    """
    return abs(int(lowered) - int(planned)) >= _NOTICED * max(int(planned), 1)


def promise(
    algorithm: Algorithm,
    which: int | None,
    runtime: str,
    *,
    lowered: bool = False,
    delivered: Deliveries | None = None,
    batch: Ints | None = None,
    queue: Ints | None = None,
) -> Promise:
    """Replay what a runtime would send; raises if it lacks switches without which the plan is another.

    See :func:`~pccl.formats.lowering.lowered_time` for the parameters; `runtime` is the name of the target, and
    `lowered` says that messages may take as long as they do.
    """
    t = algorithm.transfers
    mine = np.ones(len(t), np.bool_)
    if which is not None:
        mine = algorithm.conditions.collective[t.chunk] == which
    planned = Picoseconds(t.arrival[mine].max(initial=0))
    needed = lowered_time(algorithm, which, delivered=delivered, batch=batch, queue=queue)
    if algorithm.needs and not lowered and int(needed) > (1 + MOST_SLOWER) * int(planned):
        verbs = {"multicast": "multiply", "reduce": "add up"}
        work = " and ".join(verbs[need] for need in algorithm.needs)
        raise PcclError(
            f"the plan takes {time_text(planned)} with switches that {work} messages, but {runtime} sends messages "
            f"between NPUs, which would take {time_text(needed)}; synthesize it for this runtime (target={runtime!r}, "
            f"--for {runtime}), or have it written all the same (lowered=True, --lowered)"
        )
    return Promise(runtime, planned, needed, algorithm.needs)


def positive(value: object, name: str) -> int:
    """Return an option that counts something."""
    count = whole(value)
    if count is None or count < 1:
        raise PcclError(f"{name} must be a positive whole number, not {value!r}")
    return count


def size_of(value: Size, name: str) -> int:
    """Return an option that is a number of bytes."""
    return int(parse(Bytes, value, name))


def unit_of(program: Program, *sizes: int) -> int:
    """Return the largest number of bytes that these sizes, and all that a program moves, are multiples of."""
    m = program.messages
    c = program.copies
    moved = (m.bytes, m.read_offset, m.write_offset, m.add_offset)
    columns = (*moved, c.bytes, c.read_offset, c.write_offset)
    return gcd(*sizes, *(int(np.gcd.reduce(column)) for column in columns if len(column)))


def too_many_chunks(program: Program, unit: int, chunks: int, what: str, most: int) -> PcclError:
    """The error for a file that would count in chunks of `unit` bytes, of which it would have too many.

    Parameters
    ----------
    program, unit
        What was to be written, and in which chunks.
    chunks, what, most
        How many there would be, in what, and how many there may be.
    """
    task = program.collective
    there = f"{what} would have {chunks:,}, and {most:,} is the limit"
    if task.has_one_size:
        return PcclError(
            f"{task.kind}: the file counts in chunks of {Bytes(unit)}, of which {there}; take fewer"
        )
    # With room, as shares become larger by up to a unit each, and as a message must not take too many steps.
    wanted = 4 * -(-chunks * unit // most)
    round_to = Bytes(2 ** max(wanted - 1, 1).bit_length())
    return PcclError(
        f"{task.kind}: the file counts in chunks of one size, and the shares have no larger one in common than "
        f"{Bytes(unit)}, of which {there}; plan it with shares that are rounded up, for example --round {round_to}, "
        f"in Python round={str(round_to)!r}"
    )


def matrix_of(program: Program, unit: int) -> list[list[int]]:
    """What every rank sends to every other in a collective with a matrix, in chunks of `unit` bytes."""
    matrix = np.zeros((len(program.npus),) * 2, np.int64)
    sent: Ints = program.enlarged.shares  # type: ignore[attr-defined]
    matrix[np.ix_(program.members, program.members)] = sent // unit
    found: list[list[int]] = matrix.tolist()
    return found


def refuse_wrong(what: str, problems: Sequence[Problem]) -> None:
    """Raise if a file that was to be written does not do what it should."""
    if problems:
        raise InternalError(f"the {what} that was to be written is wrong: {problems[0]}")
