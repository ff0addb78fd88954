"""A backend of torch.distributed that serves collectives from a folder of plans, and all else from gloo or NCCL.

After ``import pccl.torch``, ``init_process_group("pccl")`` makes process groups of it. The folder is named by the
environment variable ``PCCL_PLANS``; which plan serves a call follows from the collective, the group and the size, and
so is the same on all ranks. Whatever is not served goes to the backend inside, and is logged once, with the reason.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from pccl._arrays import Ints
from pccl.errors import RunError
from pccl.runtime import Buffers, Elements, Rank
from pccl.runtime.arrays import DTYPES
from pccl.runtime.plans import Plan, Plans
from pccl.torch.compile import Queue, finished, op_name, work_of
from pccl.torch.transport import TorchTransport

NAME = "pccl"
FOLDER = "PCCL_PLANS"
_log = logging.getLogger("pccl.torch")


class PcclGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group whose collectives follow plans.

    Attributes
    ----------
    served
        How many calls plans have served, by collective.
    """

    # C++ looks methods up on the class, and so each of them stands here.

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._store = store
        self._timeout = timeout
        self._name = NAME
        self._inner: dict[tuple[str, str], Any] = {}
        self._ranks_of_plans: dict[tuple[Any, str], Rank] = {}
        self._queue = Queue()
        self._told: set[str] = set()
        self.served: Counter[str] = Counter()

    # --- who it is ---------------------------------------------------------------------------------------------------

    def getBackendName(self) -> str:  # noqa: N802
        """What torch prints."""
        return NAME

    def name(self) -> str:
        """What torch prints."""
        return NAME

    @property
    def group_name(self) -> str:
        """The name under which torch finds the group again."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Take the name that torch gives."""
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        """The name that torch has given."""
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    # --- collectives that plans serve --------------------------------------------------------------------------------

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """``all_reduce``."""
        (tensor,) = _listed(tensors)
        return self._serve(
            _Call("all-reduce", tensor, tensor, tensor.nbytes, op=opts and opts.reduceOp),
            lambda inner: _with(inner.allreduce, tensors, opts),
        )

    def broadcast(self, tensors: Any, opts: Any = None) -> Any:
        """``broadcast``."""
        (tensor,) = _listed(tensors)
        root = opts.rootRank if opts is not None else 0
        source = tensor if root == self.rank() else None
        return self._serve(
            _Call("broadcast", tensor, source, tensor.nbytes, root=root),
            lambda inner: _with(inner.broadcast, tensors, opts),
        )

    def reduce(self, tensors: Any, opts: Any = None) -> Any:
        """``reduce``."""
        (tensor,) = _listed(tensors)
        root = opts.rootRank if opts is not None else 0
        target = tensor if root == self.rank() else None
        return self._serve(
            _Call("reduce", target, tensor, tensor.nbytes, op=opts and opts.reduceOp, root=root),
            lambda inner: _with(inner.reduce, tensors, opts),
        )

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        """``all_gather_into_tensor``."""
        return self._serve(
            _Call("all-gather", output, input, output.nbytes),
            lambda inner: _with(
                _first(inner, "all_gather_single", "_allgather_base"), output, input, opts
            ),
        )

    _allgather_base = all_gather_single

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        """``reduce_scatter_tensor``."""
        return self._serve(
            _Call("reduce-scatter", output, input, input.nbytes, op=opts and opts.reduceOp),
            lambda inner: _with(
                _first(inner, "reduce_scatter_single", "_reduce_scatter_base"), output, input, opts
            ),
        )

    _reduce_scatter_base = reduce_scatter_single

    def all_to_all_single(
        self,
        output: Any,
        input: Any,
        output_splits: Any = (),
        input_splits: Any = (),
        opts: Any = None,
    ) -> Any:
        """``all_to_all_single``, with equal shares or not."""
        call = _Call("all-to-all", output, input, input.nbytes)
        if len(input_splits) or len(output_splits):
            call.splits = _in_elements(input, input_splits, self.size())
            # What this rank sends says nothing of what others do: the plan is chosen by the number of ranks alone.
            call.size = 0
        return self._serve(
            call,
            lambda inner: _with(
                _first(inner, "all_to_all_single", "alltoall_base"),
                output, input, list(output_splits), list(input_splits), opts,
            ),
        )  # fmt: skip

    alltoall_base = all_to_all_single

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """``gather``."""
        (tensor,) = _listed(inputs)
        root = opts.rootRank if opts is not None else 0
        parts = list(outputs[0]) if root == self.rank() and outputs else []
        call = _Call("gather", _room(parts), tensor, tensor.nbytes * self.size(), root=root)
        call.then = lambda: _dealt(call.output, parts)
        return self._serve(call, lambda inner: _with(inner.gather, outputs, inputs, opts))

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """``scatter``."""
        (tensor,) = _listed(outputs)
        root = opts.rootRank if opts is not None else 0
        parts = list(inputs[0]) if root == self.rank() and inputs else []
        joined = torch.cat([part.reshape(-1) for part in parts]) if parts else None
        call = _Call("scatter", tensor, joined, tensor.nbytes * self.size(), root=root)
        return self._serve(call, lambda inner: _with(inner.scatter, outputs, inputs, opts))

    def barrier(self, opts: Any = None) -> Any:
        """``barrier``: the smallest all-reduce."""
        token = torch.zeros(1, dtype=torch.int32)
        return self._serve(
            _Call("all-reduce", token, token, token.nbytes),
            lambda inner: _with(inner.barrier, opts),
        )

    # --- and those that they do not ----------------------------------------------------------------------------------

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """``all_gather`` into lists."""
        return self._pass(
            "all_gather into lists", inputs, lambda i: _with(i.allgather, outputs, inputs, opts)
        )

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several ``all_gather`` at once."""
        return self._pass(
            "several all_gather at once",
            inputs,
            lambda i: _with(i.allgather_coalesced, outputs, inputs, opts),
        )

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several ``all_gather_into_tensor`` at once."""
        return self._pass(
            "several all_gather_into_tensor at once",
            inputs,
            lambda i: _with(i.allgather_into_tensor_coalesced, outputs, inputs, opts),
        )

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """Several ``all_reduce`` at once."""
        return self._pass(
            "several all_reduce at once",
            tensors,
            lambda i: _with(i.allreduce_coalesced, tensors, opts),
        )

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """``reduce_scatter`` from lists."""
        return self._pass(
            "reduce_scatter from lists",
            outputs,
            lambda i: _with(i.reduce_scatter, outputs, inputs, opts),
        )

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Several ``reduce_scatter_tensor`` at once."""
        return self._pass(
            "several reduce_scatter_tensor at once",
            inputs,
            lambda i: _with(i.reduce_scatter_tensor_coalesced, outputs, inputs, opts),
        )

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """``all_to_all`` of lists."""
        return self._pass(
            "all_to_all of lists", inputs, lambda i: _with(i.alltoall, outputs, inputs, opts)
        )

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """``send``, which is what plans themselves are made of."""
        return self._inside(tensors[0].device).send(tensors, peer, tag)

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Any:
        """``recv``."""
        return self._inside(tensors[0].device).recv(tensors, peer, tag)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """``recv`` from anybody."""
        return self._inside(tensors[0].device).recv_anysource(tensors, tag)

    def shutdown(self) -> None:
        """Wait for what is under way, and end."""
        self._queue.close()
        for inner in self._inner.values():
            if hasattr(inner, "shutdown"):
                inner.shutdown()

    def abort(self) -> None:
        """End at once."""
        self._queue.close(at_once=True)
        for inner in self._inner.values():
            if hasattr(inner, "abort"):
                inner.abort()

    # --- how ---------------------------------------------------------------------------------------------------------

    def _serve(self, call: _Call, otherwise: Callable[[Any], Any]) -> Any:
        """Run a call by its plan, or have the backend inside do it."""
        plan = self._plan(call)
        if isinstance(plan, str):
            self._tell(call.kind, plan)
            return otherwise(self._inside(call.device))
        self.served[call.kind] += 1

        def run() -> None:
            rank = self._rank_of(plan, call.device)
            elements = call.elements(rank)
            buffers = Buffers(_flat(call.input), _flat(call.output))
            rank.run([buffers], op=call.op, elements=[elements])
            if call.output is not None and not call.output.is_contiguous():
                call.output.copy_(buffers.output.view(call.output.shape))
            call.then()

        result = [tensor for tensor in (call.output, call.input) if tensor is not None][:1]
        if call.device.type == "cpu":
            return work_of(self._queue, run, result)
        # On a GPU nothing waits here: it all goes to the stream that is current now.
        run()
        return finished(result)

    def _plan(self, call: _Call) -> Plan | str:
        folder = os.environ.get(FOLDER)
        if not folder:
            return f"{FOLDER} names no folder of plans"
        if call.problem:
            return call.problem
        ranks = dist.get_process_group_ranks(self)
        return plans_of(folder).find(call.kind, ranks, call.size, call.root)

    def _rank_of(self, plan: Plan, device: torch.device) -> Rank:
        key = (plan.path, str(device))
        if key not in self._ranks_of_plans:
            # Of its own: calls that plans serve and others may be under way at the same time.
            inner = self._inside(device, "plans")
            transport = TorchTransport(inner, device, self._timeout, batched=device.type != "cpu")
            self._ranks_of_plans[key] = Rank(plan.scripts, transport, check=True)
        return self._ranks_of_plans[key]

    def _pass(self, what: str, tensors: Any, otherwise: Callable[[Any], Any]) -> Any:
        self._tell(what, "plans are for single tensors")
        first = tensors[0]
        return otherwise(
            self._inside((first[0] if isinstance(first, list | tuple) else first).device)
        )

    def _tell(self, what: str, reason: str) -> None:
        text = f"{what} goes to the backend inside: {reason}"
        if text not in self._told:
            self._told.add(text)
            _log.warning(text) if self.rank() == 0 else _log.debug(text)

    def _inside(self, device: torch.device, use: str = "other") -> Any:
        """The backend inside, for tensors of this kind of device."""
        key = (device.type, use)
        if key not in self._inner:
            store = dist.PrefixStore(f"{NAME}/{use}/{device.type}", self._store)
            try:
                self._inner[key] = self._made(device, store)
            except RuntimeError as error:
                first = (str(error).strip().splitlines() or [""])[0]
                raise RunError(
                    f"rank {self.rank()} cannot connect with the others: {first}"
                ) from None
        return self._inner[key]

    def _made(self, device: torch.device, store: Any) -> Any:
        if device.type == "cpu":
            return dist.ProcessGroupGloo(store, self.rank(), self.size(), self._timeout)
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = self._timeout
        return dist.ProcessGroupNCCL(store, self.rank(), self.size(), options)


class _Call:
    """What a program asks for."""

    def __init__(
        self,
        kind: str,
        output: torch.Tensor | None,
        source: torch.Tensor | None,
        size: int,
        *,
        op: Any = None,
        root: int | None = None,
    ) -> None:
        self.kind = kind
        self.output = output
        self.input = source
        self.size = size
        self.root = root
        self.splits: list[int] | None = None
        self.then: Callable[[], None] = lambda: None
        tensor = output if output is not None else source
        assert tensor is not None
        self.device = tensor.device
        self.width = tensor.element_size()
        self.problem = ""
        self.op = "sum"
        name = str(tensor.dtype).removeprefix("torch.")
        if name not in DTYPES:
            self.problem = f"plans do not send {name}"
        try:
            self.op = "sum" if op is None else op_name(op)
        except RunError as error:
            self.problem = str(error)

    def elements(self, rank: Rank) -> Elements:
        """How many elements the collective has; of an all-to-all of unequal shares, all ranks tell all."""
        if self.splits is None:
            return int(self.size) // int(self.width)
        mine = np.array(self.splits, np.int64).tobytes()
        rows = [np.frombuffer(row, np.int64) for row in rank.transport.exchange(mine)]
        matrix: Ints = np.stack(rows)
        return matrix


@lru_cache
def plans_of(folder: str) -> Plans:
    """The plans of a folder, read once."""
    return Plans(folder)


def register() -> None:
    """Let torch know the backend by its name."""
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, devices=["cpu", "cuda"])


def _create(store: Any, rank: int, size: int, timeout: timedelta) -> PcclGroup:
    return PcclGroup(store, rank, size, timeout)


def _listed(tensors: Any) -> Sequence[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else tensors


def _with(call: Any, *args: Any) -> Any:
    """Call with what is given, leaving the options to their defaults if there are none."""
    return call(*(args if args[-1] is not None else args[:-1]))


def _first(inner: Any, *names: str) -> Any:
    """The method that this version of torch has."""
    return next(getattr(inner, name) for name in names if hasattr(inner, name))


def _flat(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.detach().contiguous().view(-1)


def _in_elements(tensor: torch.Tensor, splits: Sequence[int], ranks: int) -> list[int]:
    """What goes to each rank, in elements; torch counts rows."""
    rows = tensor.size(0) if tensor.dim() else 1
    width = tensor.numel() // rows if rows else 0
    given = list(splits) or [rows // ranks] * ranks
    return [rows_to * width for rows_to in given]


def _room(parts: Sequence[torch.Tensor]) -> torch.Tensor | None:
    if not parts:
        return None
    count = sum(part.numel() for part in parts)
    return torch.empty(count, dtype=parts[0].dtype, device=parts[0].device)


def _dealt(joined: torch.Tensor | None, parts: Sequence[torch.Tensor]) -> None:
    """Put a gathered buffer into the tensors that the program has given."""
    if joined is None:
        return
    for part, piece in zip(parts, joined.split([part.numel() for part in parts]), strict=True):
        part.copy_(piece.view(part.shape))
