"""Ranks that are joined by TCP connections, one for each pair, with NumPy arrays: nothing has to be installed for it.

A rank looks after its connections whenever it waits for something. If one goes wrong it tells all others why, so that
every rank ends with the same reason, and none waits for ever.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from pccl.errors import RunError
from pccl.runtime.arrays import NumpyArrays
from pccl.units import counted

LOOPBACK = "127.0.0.1"
# Every message has its tag and its length in front of it; both ends count bytes in the same order.
_HEAD = struct.Struct("!qq")
# Tags of what is no message of a plan: why a rank stops, that it leaves in peace, and what all give to all.
_STOPS = -1
_LEAVES = -2
_EXCHANGE = -3
# As many bytes are worth waking up for, even if a message has more.
_ENOUGH = 2**17
Address = tuple[str, int]


class SocketHandle:
    """A message that is sent or expected."""

    __slots__ = ("_transport", "data", "done", "peer")

    def __init__(self, transport: SocketTransport, peer: int, data: memoryview) -> None:
        self._transport = transport
        self.peer = peer
        self.data = data
        self.done = False

    def wait(self) -> None:
        """Look after all connections until this message is through."""
        if not self.done:
            self._transport.progress(self)


class FirstHandle:
    """What is through when the first of several messages is."""

    def __init__(self, transport: SocketTransport, handles: Sequence[SocketHandle]) -> None:
        self._transport = transport
        self._handles = handles

    def wait(self) -> None:
        """Look after all connections until one of the messages is through."""
        self._transport.progress(*self._handles)


class _Connection:
    """What is under way between this rank and another."""

    def __init__(self, peer: int, link: socket.socket) -> None:
        self.peer = peer
        self.link = link
        self.watched = selectors.EVENT_READ
        # What is to be sent, each with the handle that is done with it.
        self.leaving: deque[tuple[memoryview, SocketHandle | None]] = deque()
        self.expected: dict[int, deque[SocketHandle]] = defaultdict(deque)
        self.early: dict[int, deque[bytearray]] = defaultdict(deque)
        # What comes in now: its head, then the rest.
        self.head = bytearray(_HEAD.size)
        self.tag = 0
        self.room = memoryview(self.head)
        self.into: Any = None
        # How many bytes must be there before the selector tells us.
        self.rest = 1
        self.left = False
        self.lost = ""


class SocketTransport:
    """The connections of one rank.

    Parameters
    ----------
    rank, links
        Which rank this is, and a connected socket to each of the others.
    timeout
        For how many seconds nothing at all may come before a rank gives up.
    """

    def __init__(self, rank: int, links: Mapping[int, socket.socket], timeout: float) -> None:
        self.rank = rank
        self.size = len(links) + 1
        self.arrays = NumpyArrays()
        self.timeout = timeout
        self._connections = {peer: _Connection(peer, link) for peer, link in links.items()}
        self._selector = selectors.DefaultSelector()
        for connection in self._connections.values():
            connection.link.setblocking(False)
            connection.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._selector.register(connection.link, selectors.EVENT_READ, connection)

    # --- what a transport does ---------------------------------------------------------------------------------------

    def send(self, data: Any, peer: int, tag: int) -> SocketHandle:
        """Begin to send an array."""
        connection = self._connections[peer]
        handle = SocketHandle(self, peer, _bytes_of(data))
        head = memoryview(_HEAD.pack(tag, len(handle.data)))
        connection.leaving.append((head, None))
        connection.leaving.append((handle.data, handle))
        self._push(connection)
        return handle

    def receive(self, data: Any, peer: int, tag: int) -> SocketHandle:
        """Begin to receive an array."""
        connection = self._connections[peer]
        handle = SocketHandle(self, peer, _bytes_of(data))
        if connection.early[tag]:
            self._arrived(handle, connection.early[tag].popleft())
        else:
            connection.expected[tag].append(handle)
        return handle

    def first(self, handles: Sequence[SocketHandle]) -> FirstHandle:
        """What is through when the first of several messages is."""
        return FirstHandle(self, handles)

    def exchange(self, data: bytes) -> list[bytes]:
        """Give a few bytes to all, and return those of all."""
        sent = [
            self.send(np.frombuffer(data, np.uint8), peer, _EXCHANGE) for peer in self._connections
        ]
        found = {self.rank: data}
        for peer, connection in self._connections.items():
            self._until(lambda c=connection: bool(c.early[_EXCHANGE]), [connection])  # type: ignore[misc]
            found[peer] = bytes(connection.early[_EXCHANGE].popleft())
        for handle in sent:
            handle.wait()
        return [found[rank] for rank in range(self.size)]

    def stop(self, reason: str) -> None:
        """Tell all others why this rank does not go on."""
        self._tell(_STOPS, reason.encode())

    def close(self) -> None:
        """Leave in peace."""
        self._tell(_LEAVES, b"")
        self._selector.close()
        for connection in self._connections.values():
            connection.link.close()

    def progress(self, *handles: SocketHandle) -> None:
        """Look after all connections until one of these messages is through."""
        peers = sorted({handle.peer for handle in handles})
        waited = [self._connections[peer] for peer in peers]
        self._until(lambda: any(handle.done for handle in handles), waited)

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _until(self, is_done: Callable[[], bool], waited: list[_Connection]) -> None:
        deadline = time.monotonic() + self.timeout
        while not is_done():
            for connection in waited:
                if connection.lost:
                    raise RunError(f"rank {connection.peer} {connection.lost}")
            events = self._selector.select(max(deadline - time.monotonic(), 0))
            if not events and time.monotonic() >= deadline:
                who = ", ".join(str(connection.peer) for connection in waited)
                raise RunError(
                    f"rank {self.rank} has waited for rank {who} for {self.timeout:g} s; does that run the same plan, "
                    "with as many elements?"
                )
            for key, mask in events:
                if mask & selectors.EVENT_WRITE:
                    self._push(key.data)
                if mask & selectors.EVENT_READ and self._pull(key.data):
                    deadline = time.monotonic() + self.timeout

    def _push(self, connection: _Connection) -> None:
        """Send as much as the connection takes."""
        leaving = connection.leaving
        try:
            while leaving:
                count = connection.link.sendmsg([data for data, _ in islice(leaving, 16)])
                while leaving and count >= len(leaving[0][0]):
                    data, handle = leaving.popleft()
                    count -= len(data)
                    if handle is not None:
                        handle.done = True
                if leaving:
                    data, handle = leaving.popleft()
                    leaving.appendleft((data[count:], handle))
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._lose(connection)
        self._watch(connection)

    def _watch(self, connection: _Connection) -> None:
        wanted = 0 if connection.lost or connection.left else selectors.EVENT_READ
        wanted |= selectors.EVENT_WRITE if connection.leaving and not connection.lost else 0
        if wanted == connection.watched:
            return
        if not connection.watched:
            self._selector.register(connection.link, wanted, connection)
        elif not wanted:
            self._selector.unregister(connection.link)
        else:
            self._selector.modify(connection.link, wanted, connection)
        connection.watched = wanted

    def _pull(self, connection: _Connection) -> bool:
        """Take in what has come; whether something has."""
        came = False
        try:
            while True:
                if len(connection.room):
                    count = connection.link.recv_into(connection.room)
                    if not count:
                        self._lose(connection)
                        return came
                    came = True
                    connection.room = connection.room[count:]
                if not len(connection.room):
                    self._complete(connection)
                    if connection.left:
                        return came
        except (BlockingIOError, InterruptedError):
            self._doze(connection)
            return came
        except OSError:
            self._lose(connection)
            return came

    def _doze(self, connection: _Connection) -> None:
        """Sleep until the rest of a message is there: over a slow link, every packet would wake us otherwise."""
        rest = 1 if connection.into is None else min(len(connection.room), _ENOUGH)
        if rest != connection.rest:
            connection.rest = rest
            connection.link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, rest)

    def _complete(self, connection: _Connection) -> None:
        """A head, or what belongs to it, is all there."""
        if connection.into is None:
            connection.tag, length = _HEAD.unpack(connection.head)
            expected = connection.expected[connection.tag] if connection.tag >= 0 else None
            if expected:
                handle = expected.popleft()
                self._check_length(handle, length)
                connection.into = handle
                connection.room = handle.data
            else:
                connection.into = bytearray(length)
                connection.room = memoryview(connection.into)
            if length:
                return
        into = connection.into
        connection.into = None
        connection.room = memoryview(connection.head)
        if isinstance(into, SocketHandle):
            into.done = True
        elif connection.tag == _STOPS:
            connection.lost = "stopped"
            raise RunError(into.decode(errors="replace"))
        elif connection.tag == _LEAVES:
            connection.left = True
            connection.lost = "has left, while others still wait for it"
            self._watch(connection)
        else:
            self._arrive(connection, into)

    def _arrive(self, connection: _Connection, data: bytearray) -> None:
        """What came before it was expected; it may be by now."""
        expected = connection.expected[connection.tag]
        if expected and connection.tag >= 0:
            self._arrived(expected.popleft(), data)
        else:
            connection.early[connection.tag].append(data)

    def _arrived(self, handle: SocketHandle, data: bytearray) -> None:
        self._check_length(handle, len(data))
        handle.data[:] = data
        handle.done = True

    def _check_length(self, handle: SocketHandle, length: int) -> None:
        if length != len(handle.data):
            raise RunError(
                f"rank {handle.peer} sends {counted(length, 'byte')} where rank {self.rank} expects "
                f"{len(handle.data):,}; call it with as many elements of the same type on all ranks"
            )

    def _lose(self, connection: _Connection) -> None:
        connection.lost = "has gone: its connection is closed"
        self._watch(connection)

    def _tell(self, tag: int, data: bytes) -> None:
        """Send something to everybody who is still there, for a moment at most."""
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.link.settimeout(1)
                for part, _ in connection.leaving:
                    connection.link.sendall(part)
                connection.leaving.clear()
                connection.link.sendall(_HEAD.pack(tag, len(data)) + data)


def listening() -> socket.socket:
    """A socket of this machine alone that other ranks can connect to."""
    found = socket.socket()
    found.bind((LOOPBACK, 0))
    found.listen(socket.SOMAXCONN)
    return found


def connect(
    rank: int, listener: socket.socket, addresses: Mapping[int, Address], timeout: float
) -> SocketTransport:
    """Connect with all other ranks: those with a smaller number listen, and those with a larger one come to us.

    Parameters
    ----------
    rank, listener
        Which rank this is, and the socket that others find it at.
    addresses
        Where this rank finds the others.
    timeout
        Seconds.
    """
    links: dict[int, socket.socket] = {}
    try:
        for peer, address in addresses.items():
            if peer < rank:
                links[peer] = socket.create_connection(address, timeout)
                links[peer].sendall(struct.pack("!q", rank))
        listener.settimeout(timeout)
        while len(links) < len([peer for peer in addresses if peer != rank]):
            link, _ = listener.accept()
            link.settimeout(timeout)
            name = link.recv(8, socket.MSG_WAITALL)
            links[struct.unpack("!q", name)[0]] = link
    except (OSError, struct.error) as error:
        missing = sorted(set(addresses) - set(links) - {rank})
        raise RunError(f"rank {rank} cannot connect with rank {missing[0]}: {error}") from None
    finally:
        listener.close()
    return SocketTransport(rank, links, timeout)


def _bytes_of(array: Any) -> memoryview:
    return memoryview(array.view(np.uint8))
