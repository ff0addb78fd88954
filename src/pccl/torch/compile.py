"""Plans as functions on tensors, called by all ranks of a process group."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from os import PathLike
from typing import Any

import torch
import torch.distributed as dist

from pccl.algorithm import Algorithm, load
from pccl.errors import RunError
from pccl.runtime import Buffers, Elements, Rank, Scripts, scripts_of
from pccl.torch.transport import TorchTransport

# What torch calls the operations; others are not sums that can be made step by step, in any order.
OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.AVG: "avg",
}
_TIMEOUT = timedelta(minutes=5)
_QUEUES: weakref.WeakKeyDictionary[Any, Queue] = weakref.WeakKeyDictionary()


class Queue:
    """Calls on one group, which go one after another, in the order in which they were made, whoever waits for them."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "pccl")
        self._last: Future[None] | None = None

    def begin(self, run: Callable[[], None]) -> None:
        """Have it done when all before it are."""
        self._last = self._thread.submit(run)

    def do(self, run: Callable[[], None]) -> None:
        """Do it now, when all before it are done."""
        if self._last is not None:
            wait([self._last])
        run()

    def close(self, at_once: bool = False) -> None:
        """End, when all is done that was begun, or at once."""
        self._thread.shutdown(wait=not at_once, cancel_futures=at_once)


class Collective:
    """A plan on one rank of a process group; made by :func:`compile`, and called by all ranks.

    Attributes
    ----------
    mine
        Which collectives of the plan this rank is a member of; it relays for the others at most.
    """

    def __init__(self, rank: Rank, queue: Queue) -> None:
        self._rank = rank
        self._queue = queue
        self.mine: tuple[int, ...] = tuple(rank.mine)

    def __call__(
        self,
        output: torch.Tensor | Sequence[torch.Tensor | None] | None = None,
        input: torch.Tensor | Sequence[torch.Tensor | None] | None = None,
        op: Any = dist.ReduceOp.SUM,
        async_op: bool = False,
        *,
        elements: Elements | list[Elements] | None = None,
    ) -> Any:
        """Take part in the collectives of the plan.

        Parameters
        ----------
        output, input
            The buffers of this rank, which may be the same tensor; of a member of several collectives a list of them,
            in the order of the plan. A rank that only relays needs none; nor does one that only gives, or only gets,
            need the other.
        op
            What sums are: ``SUM``, ``PRODUCT``, ``MAX``, ``MIN`` or ``AVG``.
        async_op
            Whether to return at once, with a ``Work`` to wait for.
        elements
            How many elements a collective has in all, where its buffers here do not tell; for an all-to-all, what every
            member sends to every other.

        Returns
        -------
        A ``Work`` if `async_op`, otherwise nothing.
        """
        name = op_name(op)
        pairs = self._pairs(output, input)
        given: list[Elements | None] | None = None
        if elements is not None:
            given = [*elements] if isinstance(elements, list) else [elements]

        def run() -> None:
            flat = [_Flat(out, into) for out, into in pairs]
            self._rank.run([one.buffers for one in flat], op=name, elements=given)
            for one in flat:
                one.finish()

        if async_op:
            results = [out for out, _ in pairs if out is not None]
            if self._rank.transport.arrays.device.type == "cpu":  # type: ignore[attr-defined]
                return work_of(self._queue, run, results)
            # On a GPU nothing waits here: it all goes to the stream that is current now.
            run()
            return finished(results)
        self._queue.do(run)
        return None

    def _pairs(self, output: Any, source: Any) -> list[tuple[Any, Any]]:
        count = len(self.mine)
        lists = []
        for given in (output, source):
            if isinstance(given, list | tuple):
                lists.append(list(given))
            else:
                lists.append([given] * count if given is None else [given])
        if any(len(one) != count for one in lists):
            raise RunError(
                f"rank {self._rank.rank} is a member of {count} collectives of the plan, and was called with "
                f"{len(lists[0])} outputs and {len(lists[1])} inputs"
            )
        return list(zip(*lists, strict=True))


class _Flat:
    """Tensors as the runtime takes them: in one dimension and in one piece."""

    def __init__(self, output: torch.Tensor | None, source: torch.Tensor | None) -> None:
        self._output = output
        self._target = None if output is None else _flat(output)
        self.buffers = Buffers(None if source is None else _flat(source), self._target)

    def finish(self) -> None:
        """Put results back where they could not be written at once."""
        if self._output is not None and not self._output.is_contiguous():
            assert self._target is not None
            self._output.copy_(self._target.view(self._output.shape))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().view(-1)


def compile(  # noqa: A001
    plan: Algorithm | Scripts | str | PathLike[str],
    group: Any = None,
    *,
    device: torch.device | str | None = None,
    timeout: timedelta = _TIMEOUT,
    check: bool = True,
    batched: bool | None = None,
    ipc: bool = False,
) -> Collective:
    """Make a function of a plan, which all ranks of a process group call.

    The r-th rank of the group stands for the r-th NPU of the plan's topology; or, where the group has fewer ranks, for
    the r-th NPU that has something to do. All ranks must call this, and then what it returns, in the same order.

    Parameters
    ----------
    plan
        The plan, or its file.
    group
        The process group; by default all ranks.
    device
        Where tensors will be; by default a GPU if the group needs one.
    timeout
        After which a rank that waits for another raises :class:`~pccl.RunError`.
    check
        Whether ranks compare their plans now, and what they are called with the first time.
    batched
        Whether messages go in rounds, all of a round together; by default if tensors are on a GPU, as NCCL needs that.
    ipc
        Whether ranks copy straight out of each other's GPU memory, which takes ranks of one box, and a group that can
        exchange a few words between processors, such as gloo. NCCL is not needed, and ranks may share a GPU.
    """
    process_group = dist.group.WORLD if group is None else group
    if process_group is None:
        raise RunError("there is no process group; call torch.distributed.init_process_group first")
    if process_group is dist.GroupMember.NON_GROUP_MEMBER:
        raise RunError("this rank is no member of the process group that the plan is compiled for")
    if not isinstance(plan, Algorithm | Scripts):
        plan = load(str(plan))
    where = _device(process_group) if device is None else torch.device(device)
    transport: Any
    if ipc:
        transport = _ipc(process_group, where, timeout)
    else:
        together = where.type != "cpu" if batched is None else batched
        transport = TorchTransport(process_group, where, timeout, together)
    rank = Rank(_scripts(plan, transport.size), transport, check=check)
    return Collective(rank, queue_of(process_group))


def _ipc(group: Any, device: torch.device, timeout: timedelta) -> Any:
    """What copies between GPUs of one box."""
    from pccl.torch.ipc import IpcTransport

    if device.type != "cuda":
        raise RunError("CUDA IPC is for tensors on GPUs; name one with device=")
    control = TorchTransport(group, torch.device("cpu"), timeout)
    return IpcTransport(control, device, timeout.total_seconds())


def _scripts(plan: Algorithm | Scripts, ranks: int) -> Scripts:
    if isinstance(plan, Scripts):
        return plan
    scripts = scripts_of(plan)
    if scripts.ranks != ranks:
        busy = scripts_of(plan, only_busy=True)
        scripts = busy if busy.ranks == ranks else scripts
    return scripts


def op_name(op: Any) -> str:
    """Our name for an operation of torch."""
    # Some wrap the operation together with a factor.
    kind = getattr(op, "op", op)
    for one, name in OPS.items():
        if kind == one:
            return name
    names = [name for name, one in dist.ReduceOp.RedOpType.__members__.items() if kind == one]
    raise RunError(
        f"plans do not know the operation {' '.join(names)}; they know SUM, PRODUCT, MAX, MIN and AVG"
    )


def queue_of(group: Any) -> Queue:
    """What calls on a group go through that somebody waits for later."""
    if group not in _QUEUES:
        _QUEUES[group] = Queue()
    return _QUEUES[group]


class PlannedWork(dist._Work):  # type: ignore[misc]
    """What torch waits with; unlike a work that torch makes of a future, it raises if something has gone wrong."""

    def __init__(self, future: Any) -> None:
        super().__init__()
        self._future = future

    def wait(self, timeout: timedelta | None = None) -> bool:  # noqa: ARG002
        """Return when the collective is done here; raises :class:`~pccl.RunError` within the timeout of the group."""
        self._future.wait()
        return True

    def get_future(self) -> Any:
        """The same as a future, whose value is the list of outputs."""
        return self._future

    def is_completed(self) -> bool:
        """Whether it is done, or has failed."""
        done: bool = self._future.done()
        return done


def work_of(queue: Queue, run: Callable[[], None], result: Sequence[Any]) -> PlannedWork:
    """Begin something, and return what torch waits with."""
    future: torch.futures.Future[Any] = torch.futures.Future()

    def begin() -> None:
        try:
            run()
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(list(result))

    queue.begin(begin)
    return PlannedWork(future)


def finished(result: Sequence[Any]) -> PlannedWork:
    """What torch waits with, for something that is done already."""
    future: torch.futures.Future[Any] = torch.futures.Future()
    future.set_result(list(result))
    return PlannedWork(future)


def _device(group: Any) -> torch.device:
    """Where the backend of a group has its tensors."""
    kinds = {str(kind) for kind in getattr(group, "_device_types", ["cpu"])}
    if kinds and "cpu" not in {torch.device(kind).type for kind in kinds}:
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
