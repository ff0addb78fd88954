"""Ranks of one box that copy straight out of each other's GPU memory, over CUDA IPC; no NCCL is needed.

A sender says in shared memory where its message lies and which event stands for it; the receiver lets its stream wait
for the event, copies, and says so likewise. No process waits for a GPU: streams wait for events, processes for words.

Memory is shared allocation by allocation, the first time that something is sent from it. Events are few, and are used
again and again. One that has been recorded anew since only makes a stream wait longer, never for something that waits
for itself: whatever it waits for was begun before.
"""

from __future__ import annotations

import pickle
import secrets
import shutil
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef, reduce_tensor

from pccl.algorithm import Algorithm
from pccl.errors import RunError
from pccl.runtime.measure import Job, Report, run_in_pool
from pccl.runtime.pool import connect_sockets
from pccl.runtime.transport import Transport
from pccl.torch.arrays import TorchArrays

# Messages from one rank to another that may be under way at once.
DEPTH = 4096
# Events of a rank.
EVENTS = 64
# Memories of others that are kept open.
MOST_OPEN = 256
# What is said of a message: its number from one on, its tag, which memory, where in it, how long, and the event.
_NUMBER, _TAG, _MEMORY = range(3)


class Board:
    """A file in memory in which ranks say to each other what lies where, and what has been taken."""

    def __init__(self, path: Path, size: int) -> None:
        sent = size * size * DEPTH * 6
        # As a plain array, since every look at a mapped one takes microseconds.
        words: Any = np.asarray(np.memmap(path, np.int64, "r+"))
        self.sent = words[:sent].reshape(size, size, DEPTH, 6)
        # The number of the message, and the event that stands for its copy.
        self.taken = words[sent:].reshape(size, size, DEPTH, 2)

    @staticmethod
    def write(path: Path, size: int) -> None:
        """Make an empty one."""
        with path.open("wb") as file:
            file.truncate(size * size * DEPTH * 8 * 8)


class Leaving:
    """A message that others copy."""

    def __init__(self, transport: IpcTransport, peer: int, number: int) -> None:
        self._transport = transport
        self._peer = peer
        self._number = number

    def wait(self) -> None:
        """Return when the receiver has begun its copy; what this rank does next waits for the end of that."""
        t = self._transport
        entry = t.board.taken[t.rank, self._peer, (self._number - 1) % DEPTH]
        t.wait_until(lambda: entry[0] >= self._number, self._peer)
        torch.cuda.current_stream().wait_event(t.events[self._peer][int(entry[1])])


class Coming:
    """A message to be copied from elsewhere."""

    def __init__(self, transport: IpcTransport, data: Any, peer: int, tag: int) -> None:
        self._transport = transport
        self._data = data
        self._peer = peer
        self._tag = tag

    def wait(self) -> None:
        """Return when the copy has been begun; what this rank does next waits for its end."""
        self._transport.take(self._data, self._peer, self._tag)


class IpcTransport:
    """The connection of one rank with the others of its box.

    Parameters
    ----------
    control
        Another transport, for the few words that all ranks have to exchange.
    device
        The GPU of this rank; several ranks may have the same.
    timeout
        Seconds after which a rank gives up waiting for another.
    """

    def __init__(self, control: Transport, device: torch.device, timeout: float = 60.0) -> None:
        self.rank = control.rank
        self.size = control.size
        self.arrays = TorchArrays(device)
        self._control = control
        self._timeout = timeout
        torch.cuda.set_device(device)
        self._own = [torch.cuda.Event(interprocess=True) for _ in range(EVENTS)]
        for event in self._own:
            event.record()
        self._next_event = 0
        self._folder = self._meet(device)
        self._sent = np.zeros(self.size, np.int64)
        self._seen = np.zeros(self.size, np.int64)
        self._waiting: dict[tuple[int, int], deque[tuple[int, ...]]] = defaultdict(deque)
        self._shared: dict[int, tuple[Any, int]] = {}
        self._opened: dict[tuple[int, int], Any] = {}
        self._memories = 0

    def _meet(self, device: torch.device) -> Path:
        """Share the events, the board, and a folder for the handles of memory."""
        name = f"pccl-{secrets.token_hex(8)}"
        if self.rank == 0:
            (_place() / name).mkdir(mode=0o700)
            Board.write(_place() / name / "board", self.size)
        handles = [event.ipc_handle() for event in self._own]
        said = self.exchange(pickle.dumps((name, handles)))
        names, theirs = zip(*(pickle.loads(one) for one in said), strict=True)
        folder: Path = _place() / names[0]
        self.board = Board(folder / "board", self.size)
        self.events = [
            self._own
            if peer == self.rank
            else [torch.cuda.Event.from_ipc_handle(device, handle) for handle in their]
            for peer, their in enumerate(theirs)
        ]
        return folder

    def send(self, data: Any, peer: int, tag: int) -> Leaving:
        """Say where an array lies, which must stay as it is until the handle says so."""
        memory, offset = self._share(data)
        event = self._record(torch.cuda.current_stream())
        number = int(self._sent[peer]) + 1
        self._sent[peer] = number
        slot = (number - 1) % DEPTH
        if number > DEPTH:
            before = self.board.taken[self.rank, peer, slot]
            self.wait_until(lambda: before[0] >= number - DEPTH, peer)
        entry = self.board.sent[self.rank, peer, slot]
        entry[1:] = tag, memory, offset, data.numel() * data.element_size(), event
        # At last: whoever sees the number sees the rest.
        entry[_NUMBER] = number
        return Leaving(self, peer, number)

    def receive(self, data: Any, peer: int, tag: int) -> Coming:
        """Expect an array of the size that is sent."""
        return Coming(self, data, peer, tag)

    def exchange(self, data: bytes) -> list[bytes]:
        """Give a few bytes to all ranks, and return those of all of them."""
        return self._control.exchange(data)

    def take(self, data: Any, peer: int, tag: int) -> None:
        """Copy the next message with this tag from a rank."""
        self.wait_until(lambda: self._has_come(peer, tag), peer)
        number, memory, offset, size, event = self._waiting[peer, tag].popleft()
        count = data.numel() * data.element_size()
        if size != count:
            raise RunError(f"rank {peer} sends {size} bytes where rank {self.rank} expects {count}")
        stream = torch.cuda.current_stream()
        stream.wait_event(self.events[peer][event])
        source = self._open(peer, memory)[offset : offset + size]
        data.view(torch.uint8).copy_(source)
        entry = self.board.taken[peer, self.rank, (number - 1) % DEPTH]
        entry[1] = self._record(stream)
        entry[0] = number

    def _has_come(self, peer: int, tag: int) -> bool:
        """Note all that a rank has sent, and say whether something with this tag is among it."""
        while True:
            number = int(self._seen[peer]) + 1
            entry = self.board.sent[peer, self.rank, (number - 1) % DEPTH]
            if entry[_NUMBER] != number:
                return bool(self._waiting[peer, tag])
            self._seen[peer] = number
            self._waiting[peer, int(entry[_TAG])].append((number, *entry[_MEMORY:].tolist()))

    def wait_until(self, happened: Callable[[], Any], peer: int) -> None:
        """Ask again and again, as it is a matter of microseconds as a rule."""
        deadline = time.monotonic() + self._timeout
        while not happened():
            # Others may need the processor.
            time.sleep(0)
            if time.monotonic() > deadline:
                raise RunError(
                    f"rank {peer} has not answered rank {self.rank} for {self._timeout:g} s"
                )

    def _record(self, stream: Any) -> int:
        """An event that stands for all that has been begun so far on a stream."""
        event = self._next_event
        self._next_event = (event + 1) % EVENTS
        self._own[event].record(stream)
        return event

    def _share(self, data: Any) -> tuple[int, int]:
        """The number of the memory that an array lies in, and where it begins there."""
        storage = data.untyped_storage()
        base = storage.data_ptr()
        known = self._shared.get(base)
        if known is None or known[0].expired():
            whole = torch.empty(0, dtype=torch.uint8, device=data.device).set_(storage)
            self._memories += 1
            path = self._folder / f"{self.rank}-{self._memories}"
            path.write_bytes(pickle.dumps(reduce_tensor(whole)))
            known = StorageWeakRef(storage), self._memories
            self._shared[base] = known
        return known[1], data.data_ptr() - base

    def _open(self, peer: int, memory: int) -> Any:
        """Memory of another rank, as bytes."""
        found = self._opened.get((peer, memory))
        if found is None:
            if len(self._opened) == MOST_OPEN:
                # Copies that have begun must not lose their source.
                torch.cuda.synchronize()
                self._opened.clear()
            rebuild, args = pickle.loads((self._folder / f"{peer}-{memory}").read_bytes())
            found = rebuild(*args)
            self._opened[peer, memory] = found
        return found

    def close(self) -> None:
        """Let go of what others have shared, and remove what this rank has made."""
        torch.cuda.synchronize()
        self._opened.clear()
        self.events = []
        if self.rank == 0:
            shutil.rmtree(self._folder, ignore_errors=True)
        close = getattr(self._control, "close", None)
        if close is not None:
            close()


def _place() -> Path:
    """Where files lie in memory, if there is such a place."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else Path(tempfile.gettempdir())


def run(algorithm: Algorithm, job: Job) -> Report:
    """Run a plan on the GPUs of this box: what ``pccl run --on cuda`` does."""
    return run_in_pool(algorithm, job, f"{__name__}:connect")


def connect(rank: int, size: int, meet: Callable[[Any], list[Any]], timeout: float) -> IpcTransport:
    """Connect local ranks; they take the GPUs of the box in turn."""
    if not torch.cuda.is_available():
        raise RunError("PyTorch finds no GPU here; --on torch runs plans on processors")
    device = torch.device("cuda", rank % torch.cuda.device_count())
    return IpcTransport(connect_sockets(rank, size, meet, timeout), device, timeout)
