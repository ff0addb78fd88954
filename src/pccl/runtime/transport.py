"""What carries messages between ranks, and the transports that are known by name.

A transport is small: it begins to send or to receive an array under a tag, and gives a handle to wait with. To add one,
write such a class and a line below.
"""

from __future__ import annotations

from typing import Any, Protocol

from pccl.runtime.arrays import Arrays


class Handle(Protocol):
    """A message on its way."""

    def wait(self) -> None:
        """Return when the message has come, or may be changed by its sender.

        Raises :class:`~pccl.errors.RunError` that names the other rank if that has gone, or does not answer in time.
        """


class Transport(Protocol):
    """The connection of one rank with all others.

    Messages from one rank to another with the same tag arrive in the order in which they were sent. Nothing waits but
    ``wait`` and ``exchange``: a message may be sent before anybody expects it, and expected before it is sent.

    Attributes
    ----------
    rank, size
        Which rank this is, of how many.

    Notes
    -----
    A transport that has ``batched`` set takes many messages at once: ``batch(sends, receives)`` with pairs of an array
    and a rank, which returns a handle for all of them. Then tags do not matter, and rounds take the place of steps.

    One that has ``first(handles)``, which returns a handle that is through when the first of several is, and whose
    handles have ``done`` and ``peer``, lets ranks do every step as soon as it can be done.
    """

    rank: int
    size: int

    @property
    def arrays(self) -> Arrays:
        """What it can send."""

    def send(self, data: Any, peer: int, tag: int) -> Handle:
        """Begin to send an array, which must stay as it is until the handle says so."""

    def receive(self, data: Any, peer: int, tag: int) -> Handle:
        """Begin to receive an array of the size that is sent."""

    def exchange(self, data: bytes) -> list[bytes]:
        """Give a few bytes to all ranks, and return those of all of them, by rank; nobody returns before all have."""
