"""What can go wrong, by meaning.

::

    PcclError                 anything a user can mend: bad input, an impossible task, a wrong schedule
    ├── UnitError             a size, time or bandwidth that cannot be read
    ├── TopologyError         a network that is not one
    ├── CollectiveError       a collective that makes no sense on its topology
    ├── InfeasibleError       a task that no schedule can fulfil
    ├── VerificationError     an algorithm that breaks a rule
    ├── FormatError           a file that cannot be read
    ├── RunError              a plan that cannot be run: ranks differ, one has gone, buffers do not fit
    └── StoppedError          work that was stopped with Ctrl-C; the same call goes on with it
    InternalError             our bug: please report it
"""

from __future__ import annotations

__all__ = [
    "CollectiveError",
    "FormatError",
    "InfeasibleError",
    "InternalError",
    "PcclError",
    "RunError",
    "StoppedError",
    "TopologyError",
    "UnitError",
    "VerificationError",
]


class PcclError(Exception):
    """Base of every error that a user can mend."""


class UnitError(PcclError):
    """A size, time or bandwidth is malformed or lacks its unit."""


class TopologyError(PcclError):
    """A topology is malformed, or a device or link is not in it."""


class CollectiveError(PcclError):
    """A collective is malformed, or does not fit the topology."""


class InfeasibleError(PcclError):
    """No schedule exists, for example because a destination cannot be reached."""


class VerificationError(PcclError):
    """An algorithm breaks a rule of the network or a promise of its collectives."""


class FormatError(PcclError):
    """A file is malformed, corrupted, or of an unknown version; ``place`` is the place in it such as ``$.links[0]``."""

    def __init__(self, problem: str, place: str = "") -> None:
        super().__init__(f"{problem} - at `{place}`" if place else problem)
        self.problem = problem
        self.place = place


class RunError(PcclError):
    """A plan cannot be run: ranks do not agree, one of them has gone or does not answer, or buffers do not fit."""


class StoppedError(PcclError):
    """Somebody had enough; what is finished by then is kept."""


class InternalError(Exception):
    """A bug in PCCL itself; please report it together with the input."""
