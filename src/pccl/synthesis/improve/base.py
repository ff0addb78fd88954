"""What an improvement is: from a schedule to one that may be better, with what the search tells it.

To add one, write a class and name it in :mod:`pccl.synthesis.improve`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pccl.settings import Settings
from pccl.synthesis.problem import Problem
from pccl.synthesis.schedule import Schedule

if TYPE_CHECKING:
    from pccl.synthesis.improve.retime import Timing

# Re-times what a method has found; with a timing, only in that way.
Polish = Callable[[Schedule, "Timing | None"], Schedule]


@dataclass(frozen=True)
class Aim:
    """What the search tells an improvement."""

    settings: Settings
    seed: int  # another one for each attempt
    enough: int  # picoseconds: what is no longer needs no improvement
    polish: Polish
    over: Callable[[], bool]  # whether to stop at once


class Improvement(ABC):
    """One way to make a schedule better.

    Attributes
    ----------
    mends
        Whether it makes any schedule better as it is. Then it is tried before other methods are, and on what they find;
        otherwise only on the best, in the end.
    most_work
        About what one attempt takes at most, in links looked at.
    """

    mends: ClassVar[bool] = False
    most_work: ClassVar[int] = 0

    def applies(self, problem: Problem) -> bool:  # noqa: ARG002
        """Whether it is of use for such a problem."""
        return True

    @abstractmethod
    def improved(self, schedule: Schedule, aim: Aim) -> Schedule:
        """A schedule that may be better; the one given stays as it is."""
