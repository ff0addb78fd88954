"""Calls of kernels that come back before they are done, to report progress or for more room."""

from __future__ import annotations

from pccl.errors import InternalError

# Arrays grow by a quarter at least, so that long before that many calls no memory would be left.
_MOST_IN_VAIN = 1_000


class Calls:
    """Calls of one kernel, which must get on: if not in each of them, then before long.

    Examples
    --------
    >>> calls = Calls("placing chunks")
    >>> for done in range(5000):
    ...     calls.came_to(done)
    >>> for done in [7] * 5000:
    ...     calls.came_to(done)
    Traceback (most recent call last):
    pccl.errors.InternalError: placing chunks does not get on, however often it is called
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._last: tuple[int, ...] | None = None
        self._in_vain = 0

    def came_to(self, *state: int) -> None:
        """Note how far a call came, by numbers of which one changes whenever something is done."""
        self._in_vain = self._in_vain + 1 if state == self._last else 0
        self._last = state
        if self._in_vain > _MOST_IN_VAIN:
            raise InternalError(f"{self._what} does not get on, however often it is called")
