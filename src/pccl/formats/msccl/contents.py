"""What the messages of an MSCCL-IR file carry: followed as chunks and contributions instead of numbers."""

from __future__ import annotations

from typing import NamedTuple

from pccl.errors import FormatError
from pccl.formats.msccl.execution import Execution, Node
from pccl.formats.msccl.file import Gpu
from pccl.formats.msccl.task import Task

__all__ = ["Content", "carried"]


class Content(NamedTuple):
    """One chunk: which of the collective's (or -1 if it is not part of it), and who has contributed, one bit each."""

    chunk: int
    bits: int


def carried(task: Task, execution: Execution) -> dict[int, list[Content]]:
    """For every step that sends, by its number: what its message carries, chunk by chunk."""
    return _Follower(task).run(execution)


class _Follower:
    """The memories of all ranks, holding contents."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.first = {gpu.id: task.buffers(gpu.id) for gpu in task.algo.gpus}
        self.memory = {gpu.id: self._filled(gpu) for gpu in task.algo.gpus}

    def run(self, execution: Execution) -> dict[int, list[Content]]:
        flying: dict[object, list[Content]] = {}
        sent: dict[int, list[Content]] = {}
        for number in execution.order:
            node = execution.nodes[number]
            contents = flying.pop(node.receives) if node.receives else None
            contents = self._execute(node, contents)
            if node.sends:
                flying[node.sends] = sent[number] = contents
        return sent

    def _filled(self, gpu: Gpu) -> list[Content | None]:
        inputs, outputs = self.task.sizes
        first = self.first[gpu.id]
        memory: list[Content | None] = [None] * (max(first["s"], inputs, outputs) + gpu.s_chunks)
        for offset in range(inputs):
            memory[first["i"] + offset] = self._initial(gpu.id, offset)
        return memory

    def _initial(self, rank: int, offset: int) -> Content:
        """What lies in the input of a rank, in the order of the conditions of the collective."""
        task = self.task
        member = {other: index for index, other in enumerate(task.group)}
        share = task.algo.nchunksperloop // (task.algo.ngpus if task.kind != "all-reduce" else 1)
        part, piece = divmod(offset, share)
        if rank not in member:
            return Content(-1, 0)
        if task.kind == "all-gather":
            return Content(member[rank] * share + piece, 1)
        if task.kind == "all-reduce":
            return Content(offset, 1 << member[rank])
        if part not in member:
            return Content(-1, 0)
        if task.kind == "reduce-scatter":
            return Content(member[part] * share + piece, 1 << member[rank])
        src, dst, count = member[rank], member[part], len(member)
        return Content(
            -1 if src == dst else (src * (count - 1) + dst - (dst > src)) * share + piece, 1
        )

    def _execute(self, node: Node, received: list[Content] | None) -> list[Content]:
        step, kind = node.step, node.step.type
        if kind == "nop":
            return []
        contents = received
        if kind in ("s", "rrs", "rrc", "rrcs", "cpy", "re"):
            source = self._read(node, step.srcbuf, step.srcoff)
            contents = source if received is None else self._sum(node, received, source)
        assert contents is not None
        if kind == "re":
            contents = self._sum(node, contents, self._read(node, step.dstbuf, step.dstoff))
        if kind not in ("s", "rrs"):
            low = self.first[node.gpu][step.dstbuf] + step.dstoff
            self.memory[node.gpu][low : low + step.cnt] = contents
        return contents

    def _read(self, node: Node, buffer: str, offset: int) -> list[Content]:
        low = self.first[node.gpu][buffer] + offset
        found = [
            content
            for content in self.memory[node.gpu][low : low + node.step.cnt]
            if content is not None
        ]
        if len(found) < node.step.cnt:
            raise FormatError(
                f"{node}: it reads {buffer}[{offset}:{offset + node.step.cnt}] before that is written"
            )
        return found

    def _sum(self, node: Node, left: list[Content], right: list[Content]) -> list[Content]:
        for a, b in zip(left, right, strict=True):
            if a.chunk != b.chunk or a.bits & b.bits:
                raise FormatError(
                    f"{node}: it adds what does not belong together, or the same contribution twice"
                )
        return [Content(a.chunk, a.bits | b.bits) for a, b in zip(left, right, strict=True)]
