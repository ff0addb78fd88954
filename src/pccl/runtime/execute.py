"""One rank at work: its script, step by step, on its buffers.

Everything that has to wait is yielded as a handle, so that the same code runs on real transports, where somebody waits
for the handles, and in one process, where all ranks take turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pccl._arrays import Ints
from pccl.errors import RunError
from pccl.runtime.arrays import DTYPES, OPS, Arrays
from pccl.runtime.eager import needs_of, perform_eagerly
from pccl.runtime.rounds import rounds_of
from pccl.runtime.scripts import Action, Part, Scripts
from pccl.runtime.sizes import Elements, Room, Script, Step, script_of
from pccl.runtime.transport import Handle, Transport
from pccl.units import counted

# Tags of the messages of plans are counted from zero, for every pair of ranks; those of headers come from above.
_HEADER = 32_766
_MATRIX = 32_767


# Input, output and scratch of one collective.
_Held = tuple[Any, Any, Any]


class Buffers(NamedTuple):
    """The arrays of one collective on one rank; ``None`` for what it does not use."""

    input: Any
    output: Any


class Signature(NamedTuple):
    """What ranks must agree on, for every collective."""

    elements: Elements
    dtype: str
    op: str

    def __str__(self) -> str:
        """For people."""
        count = self.elements if isinstance(self.elements, int) else int(self.elements.sum())
        return f"{count} elements of {self.dtype}, {self.op}"


class Rank:
    """One rank of a plan: what it needs to take part in it, again and again.

    Parameters
    ----------
    scripts
        Made from the plan, by every rank for itself.
    transport
        The connection with the others; it must have as many ranks as the scripts.
    check
        Whether ranks compare their scripts now, and what they are called with the first time.

    Examples
    --------
    See :func:`pccl.runtime.run_locally`, which runs all ranks in one process.
    """

    def __init__(self, scripts: Scripts, transport: Transport, *, check: bool = True) -> None:
        if transport.size != scripts.ranks:
            raise RunError(
                f"the plan is for {counted(scripts.ranks, 'rank')}, but there are {transport.size}"
            )
        self.scripts = scripts
        self.transport = transport
        self.rank = transport.rank
        self.mine = [
            part for part, what in enumerate(scripts.parts) if self.rank in what.members.tolist()
        ]
        self._made: dict[tuple[Any, ...], Script] = {}
        self._kept: dict[tuple[int, str], Any] = {}
        self._unchecked = check
        if check:
            self._compare(
                "plan",
                scripts.digest,
                "the same plan file, and the same version of pccl, on all ranks",
            )

    def start(
        self,
        buffers: Sequence[Buffers],
        *,
        op: str = "sum",
        elements: Sequence[Elements | None] | None = None,
    ) -> Iterator[Handle]:
        """Begin a run, and yield what has to be waited for.

        Parameters
        ----------
        buffers
            Of every collective that this rank is a member of, in the order of the plan.
        op
            What sums are: one of ``OPS``.
        elements
            Of those collectives; by default that follows from the buffers.
        """
        if op not in OPS:
            raise RunError(f"there is no operation {op!r}; there are {', '.join(OPS)}")
        given = list(elements) if elements is not None else [None] * len(self.mine)
        if len(buffers) != len(self.mine) or len(given) != len(self.mine):
            raise RunError(
                f"rank {self.rank} is a member of {counted(len(self.mine), 'collective')} of the plan, and was called "
                f"with the buffers of {len(buffers)}"
            )
        known: dict[int, Signature] = {}
        for part, pair, count in zip(self.mine, buffers, given, strict=True):
            known[part] = self._signature(part, pair, op, count)
        if self._unchecked:
            self._check_calls(known)
        yield from self._tell(known)
        script = self.script(
            [
                known[part].elements if part in known else 0
                for part in range(len(self.scripts.parts))
            ]
        )
        pairs = dict(zip(self.mine, buffers, strict=True))
        held = self._arrays(script, pairs, known)
        if hasattr(self.transport, "first"):
            hands = _Hands(held, known, self.transport.arrays)
            yield from perform_eagerly(script, self._needs, hands, self.transport)
        elif getattr(self.transport, "batched", False):
            yield from _perform_rounds(script, self._rounds, held, known, self.transport)
        else:
            yield from _perform(script, held, known, self.transport)
        if op == "avg":
            self._average(script, pairs)

    def run(self, buffers: Sequence[Buffers], **options: Any) -> None:
        """Take part in one run of the plan; returns when this rank has what it is promised."""
        for handle in self.start(buffers, **options):
            handle.wait()

    @cached_property
    def _needs(self) -> dict[int, list[int]]:
        return needs_of(self.scripts, self.rank)

    @cached_property
    def _rounds(self) -> list[int]:
        found: list[int] = rounds_of(self.scripts).tolist()
        return found

    def script(self, elements: Sequence[Elements]) -> Script:
        """The script of this rank for so many elements of every collective."""
        key = tuple(one if isinstance(one, int) else one.tobytes() for one in elements)
        if key not in self._made:
            self._made[key] = script_of(self.scripts, self.rank, elements)
        return self._made[key]

    def room(self, part: int, elements: Elements) -> Room:
        """The buffers of one collective on this rank."""
        sizes: list[Elements] = [0] * len(self.scripts.parts)
        sizes[part] = elements
        return self.script(sizes).rooms[part]

    # --- what ranks agree on -----------------------------------------------------------------------------------------

    def _compare(self, what: str, text: str, advice: str) -> None:
        """Raise on all ranks if one says something else than the others."""
        said = [one.decode() for one in self.transport.exchange(text.encode())]
        other = next((rank for rank, one in enumerate(said) if one != said[0]), None)
        if other is not None:
            raise RunError(
                f"rank {other} has another {what} than rank 0 ({said[other]}, not {said[0]}); take {advice}"
            )

    def _check_calls(self, known: dict[int, Signature]) -> None:
        """Compare what all members of each collective are called with."""
        self._unchecked = False
        mine = "\n".join(f"{part}\t{signature}" for part, signature in known.items())
        said = self.transport.exchange(mine.encode())
        first: dict[str, tuple[int, str]] = {}
        for rank, text in enumerate(said):
            for line in text.decode().splitlines():
                part, signature = line.split("\t")
                before, same = first.setdefault(part, (rank, signature))
                if same != signature:
                    kind = self.scripts.parts[int(part)].collective.kind
                    raise RunError(
                        f"{kind}: rank {rank} is called with {signature}, but rank {before} with {same}"
                    )

    def _tell(self, known: dict[int, Signature]) -> Iterator[Handle]:
        """Let ranks that only relay know what is sent: the first member of a group tells those that help it."""
        for number, part in enumerate(self.scripts.parts):
            if self.rank == part.members[0]:
                yield from self._send_header(part, known[number])
            elif self.rank in part.helpers.tolist():
                yield from self._receive_header(number, part, known)

    def _send_header(self, part: Part, signature: Signature) -> Iterator[Handle]:
        transport = self.transport
        elements = signature.elements
        matrix = None if isinstance(elements, int) else elements.ravel().tolist()
        numbers = (DTYPES.index(signature.dtype), OPS.index(signature.op))
        header = transport.arrays.numbers([-1 if matrix is not None else int(elements), *numbers])
        flat = transport.arrays.numbers(matrix or [])
        handles = []
        for helper in part.helpers.tolist():
            handles.append(transport.send(header, helper, _HEADER))
            if matrix is not None:
                handles.append(transport.send(flat, helper, _MATRIX))
        yield from handles

    def _receive_header(
        self, number: int, part: Part, known: dict[int, Signature]
    ) -> Iterator[Handle]:
        transport = self.transport
        leader = int(part.members[0])
        header = transport.arrays.numbers([0, 0, 0])
        yield transport.receive(header, leader, _HEADER)
        count, dtype, op = header.tolist()
        elements: Elements = count
        if count < 0:
            size = len(part.members)
            flat = transport.arrays.numbers([0] * size * size)
            yield transport.receive(flat, leader, _MATRIX)
            elements = _matrix(flat.tolist(), size)
        known[number] = Signature(elements, DTYPES[dtype], OPS[op])

    # --- buffers -----------------------------------------------------------------------------------------------------

    def _signature(self, part: int, pair: Buffers, op: str, given: Elements | None) -> Signature:
        arrays = self.transport.arrays
        present = [array for array in pair if array is not None]
        kind = self.scripts.parts[part].collective.kind
        if not present:
            raise RunError(f"{kind}: rank {self.rank} is a member, and was called without buffers")
        dtypes = {arrays.dtype(array) for array in present}
        if len(dtypes) > 1:
            raise RunError(
                f"{kind}: input and output differ in type: {' and '.join(sorted(dtypes))}"
            )
        elements = self._elements(part, pair) if given is None else given
        room = self.room(part, elements)
        for name, array, size, used in (
            ("input", pair.input, room.input, room.reads_input),
            ("output", pair.output, room.output, room.writes_output),
        ):
            if array is None and used and size:
                raise RunError(
                    f"{kind}: rank {self.rank} was called without its {name} of {size} elements"
                )
            if array is not None and used and len(array) != size:
                raise RunError(
                    f"{kind}: the {name} of rank {self.rank} has {len(array)} elements; it must have {size}"
                )
        return Signature(elements, dtypes.pop(), op)

    def _elements(self, part: int, pair: Buffers) -> int:
        """How many elements the collective has, given the buffers of this rank; the larger one is decisive."""
        planned = int(self.scripts.parts[part].collective.size)
        room = self.room(part, planned)
        sizes = []
        if pair.input is not None and room.reads_input:
            sizes.append((room.input, len(pair.input)))
        if pair.output is not None and room.writes_output:
            sizes.append((room.output, len(pair.output)))
        share, count = max(sizes, default=(0, 0))
        return -(-count * planned // share) if share else 0

    def _arrays(
        self, script: Script, pairs: dict[int, Buffers], known: dict[int, Signature]
    ) -> list[_Held]:
        """Input, output and scratch of every collective."""
        arrays = self.transport.arrays
        found = []
        for part, room in enumerate(script.rooms):
            if part not in known:
                found.append((None, None, None))
                continue
            dtype = known[part].dtype
            pair = pairs.get(part, Buffers(None, None))
            source = _apart(arrays, pair, room)
            found.append((source, pair.output, self._scratch(part, room.scratch, dtype)))
        return found

    def _scratch(self, part: int, count: int, dtype: str) -> Any:
        """Scratch that is kept from run to run: it need not be made anew, nor others be told anew where it lies."""
        found = self._kept.get((part, dtype))
        if found is None or len(found) < count:
            found = self.transport.arrays.empty(count, dtype)
            self._kept[part, dtype] = found
        return found[:count]

    def _average(self, script: Script, pairs: dict[int, Buffers]) -> None:
        for part, pair in pairs.items():
            what = self.scripts.parts[part]
            if what.collective.collects and script.rooms[part].writes_output:
                self.transport.arrays.divide(pair.output, len(what.members))


def _matrix(flat: list[int], size: int) -> Ints:
    return np.array(flat, np.int64).reshape(size, size)


def _apart(arrays: Arrays, pair: Buffers, room: Room) -> Any:
    """The input, or a copy of it where it shares memory with the output in a way that the script is not made for."""
    if pair.input is None or pair.output is None or not (room.reads_input and room.writes_output):
        return pair.input
    first, base = arrays.address(pair.input), arrays.address(pair.output)
    width = pair.input.itemsize
    if first >= base + len(pair.output) * width or base >= first + len(pair.input) * width:
        return pair.input
    if room.shift is not None and first == base + room.shift * width:
        return pair.input
    copy = arrays.empty(len(pair.input), arrays.dtype(pair.input))
    arrays.copy(copy, pair.input)
    return copy


def _perform(
    script: Script,
    held: Sequence[_Held],
    known: dict[int, Signature],
    transport: Transport,
) -> Iterator[Handle]:
    """Do one step after another; what has come is waited for when it is needed."""
    hands = _Hands(held, known, transport.arrays)
    coming: dict[int, tuple[Handle, Any]] = {}
    leaving: dict[int, Handle] = {}
    for step in script.steps:
        if step.action == Action.SEND:
            leaving[step.message] = transport.send(hands.source(step), step.peer, step.tag)
        elif step.action == Action.POST:
            place = hands.place(step)
            coming[step.message] = transport.receive(place, step.peer, step.tag), place
        elif step.action == Action.COPY:
            hands.copy(step)
        else:
            handle, message = coming.pop(step.message)
            yield handle
            for sent in step.waits:
                if sent in leaving:
                    yield leaving.pop(sent)
            hands.take(step, message)
    yield from leaving.values()


def _perform_rounds(
    script: Script,
    rounds: Sequence[int],
    held: Sequence[_Held],
    known: dict[int, Signature],
    transport: Any,
) -> Iterator[Handle]:
    """Begin all messages of a round at once, wait for all of them, and take what has come in its order."""
    hands = _Hands(held, known, transport.arrays)
    steps: dict[int, list[Step]] = {}
    for step in script.steps:
        if step.action == Action.COPY:
            hands.copy(step)
        else:
            steps.setdefault(rounds[step.message], []).append(step)
    for _, now in sorted(steps.items()):
        # Between two ranks, messages without tags are told apart by their order.
        sends = sorted((s for s in now if s.action == Action.SEND), key=_by_way)
        posts = sorted((s for s in now if s.action == Action.POST), key=_by_way)
        places = {step.message: hands.place(step) for step in posts}
        yield transport.batch(
            [(hands.source(step), step.peer) for step in sends],
            [(places[step.message], step.peer) for step in posts],
        )
        for step in now:
            if step.action == Action.TAKE:
                hands.take(step, places[step.message])


def _by_way(step: Step) -> tuple[int, int]:
    return step.peer, step.tag


class _Hands:
    """What a rank does with the buffers of its collectives."""

    def __init__(self, held: Sequence[_Held], known: dict[int, Signature], arrays: Arrays) -> None:
        self.held = held
        self.known = known
        self.arrays = arrays

    def source(self, step: Step) -> Any:
        """What is read: sent, copied, or added to."""
        buffer = self.held[step.part][step.read_buffer]
        return buffer[step.read_offset : step.read_offset + step.length]

    def target(self, step: Step) -> Any:
        """Where it is written."""
        buffer = self.held[step.part][step.write_buffer]
        return buffer[step.write_offset : step.write_offset + step.length]

    def place(self, step: Step) -> Any:
        """Where a message is received: where it belongs, or beside it."""
        if step.direct:
            return self.target(step)
        return self.arrays.empty(step.length, self.known[step.part].dtype)

    def take(self, step: Step, message: Any) -> None:
        """Put a message where it belongs."""
        if step.reduce:
            op = self.known[step.part].op
            self.arrays.combine(op, self.target(step), self.source(step), message)
        elif not step.direct:
            self.arrays.copy(self.target(step), message)

    def copy(self, step: Step) -> None:
        """Copy what a rank keeps; in place it lies there already."""
        source, target = self.source(step), self.target(step)
        if self.arrays.address(source) != self.arrays.address(target):
            self.arrays.copy(target, source)
