"""What ranks do in the tests of torch; each function is called on every rank of a pool, with its transport."""

from __future__ import annotations

import functools
import logging
import os
import runpy
import sys
import warnings
from collections import Counter
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import pccl.torch
from pccl.runtime import Buffers, Rank
from pccl.runtime.checking import trial_buffers, trials
from pccl.torch.transport import TorchTransport

EXAMPLES = Path(__file__).parents[2] / "examples"


@functools.cache
def first_ranks(count, backend="gloo"):
    """A group of the first ranks; all ranks have to ask for it."""
    return dist.new_group(range(count), backend=backend)


def on_four_ranks(task):
    """Let the first four ranks do a task, with a group of their own, while the others have a rest."""

    @functools.wraps(task)
    def run(transport, *args):
        group = first_ranks(4, "pccl" if task.__name__ == "collectives" else "gloo")
        return task(transport, group, *args) if transport.rank < 4 else None

    return run


def float_buffers(scripts, rank, elements, dtype, seed):
    """Buffers of one rank with floats whose sums depend on their order."""
    found = []
    for number, (part, trial) in enumerate(
        zip(scripts.parts, trials(scripts, elements), strict=True)
    ):
        if rank in trial.members:
            member = trial.members.index(rank)
            random = np.random.default_rng((seed, number, member))
            values = random.standard_normal(len(trial.input(member))).astype(np.float32)
            source = torch.from_numpy(values).to(getattr(torch, dtype))
            found.append(
                Buffers(source, torch.zeros(trial.output_size(member), dtype=source.dtype))
            )
        assert part is trial.part
    return found


def run_cases(transport, cases):
    """Run plans one after another; what is wrong with integers, and what comes out of floats, by case."""
    results = []
    for scripts, elements, dtype, op, in_place, batched in cases:
        group = first_ranks(scripts.ranks)
        if transport.rank >= scripts.ranks:
            results.append(None)
            continue
        link = TorchTransport(group, torch.device("cpu"), transport.timeout, batched)
        rank = Rank(scripts, link, check=False)
        own = [elements[part] for part in rank.mine]
        if dtype == "int32":
            found = trials(scripts, elements, op=op, dtype=dtype)
            buffers = trial_buffers(scripts, found, in_place=in_place, arrays=link.arrays)[
                link.rank
            ]
            rank.run(buffers, op=op, elements=own)
            wrong = [
                found[part].wrong(found[part].members.index(link.rank), pair.output.numpy())
                for part, pair in zip(rank.mine, buffers, strict=True)
            ]
            results.append(sum(wrong))
        else:
            buffers = float_buffers(scripts, link.rank, elements, dtype, 3)
            rank.run(buffers, op=op, elements=own)
            results.append([pair.output.to(torch.float64).numpy() for pair in buffers])
    return results


# --- compile ----------------------------------------------------------------------------------------------------------


@on_four_ranks
def compiled(transport, group, path):
    """Sum up over a compiled plan: out of place, in place, asynchronously, and what is not contiguous."""
    collective = pccl.torch.compile(path, group)
    rank = transport.rank
    source = torch.arange(6.0) + rank
    output = torch.empty(6)
    assert collective(output, source) is None
    results = [output.tolist()]
    assert collective(source, source, op=dist.ReduceOp.MAX) is None
    results.append(source.tolist())
    works = []
    tensors = [torch.full((3,), float(rank + step)) for step in range(3)]
    works = [collective(tensor, tensor, async_op=True) for tensor in tensors]
    for work in works:
        work.wait()
    results.append([tensor[0].item() for tensor in tensors])
    columns = torch.ones(2, 3).t()
    collective(columns, columns, op=dist.ReduceOp.AVG)
    results.append(columns.tolist())
    return results


@on_four_ranks
def compiled_for_groups(transport, group, path, sizes):
    """Several groups, and ranks that relay for them, in one call by all."""
    collective = pccl.torch.compile(path, group)
    outputs = [torch.zeros(sizes[part]) for part in collective.mine]
    inputs = [torch.full((sizes[part],), float(transport.rank + 1)) for part in collective.mine]
    collective(outputs, inputs)
    return [output.tolist() for output in outputs]


@on_four_ranks
def called_wrongly(transport, group, path):
    """Mistakes that are found before anything is sent."""
    collective = pccl.torch.compile(path, group)
    messages = []
    tensor = torch.zeros(4)
    for call in (
        lambda: collective(tensor, torch.zeros(5)),
        lambda: collective(tensor, tensor, op=dist.ReduceOp.BAND),
        lambda: collective([tensor, tensor], [tensor, tensor]),
        lambda: collective(torch.zeros(4, dtype=torch.bool), torch.zeros(4, dtype=torch.bool)),
    ):
        try:
            call()
        except pccl.RunError as error:
            messages.append(str(error))
    return messages


def for_ever(transport, path, started):
    collective = pccl.torch.compile(path)
    while True:
        tensor = torch.zeros(100)
        collective(tensor, tensor)
        Path(started).touch()


def for_ever_behind_the_backend(transport, plans, started):
    """An unmodified program, whose call must not return as if nothing had happened."""
    os.environ["PCCL_PLANS"] = plans
    group = dist.new_group(range(4), backend="pccl", timeout=timedelta(seconds=20))
    while True:
        dist.all_reduce(torch.zeros(100), group=group)
        Path(started).touch()


# --- the backend ------------------------------------------------------------------------------------------------------


@on_four_ranks
def collectives(transport, group, plans):
    """Every collective of torch.distributed on a group of the backend; those that went wrong, and who has served."""
    os.environ["PCCL_PLANS"] = plans
    warnings.simplefilter("ignore")
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logging.getLogger("pccl.torch").addHandler(handler)
    rank, size = transport.rank, 4
    checks = {}

    def full(value, *shape):
        return torch.full(shape, float(value))

    tensor = torch.arange(10.0) + rank
    dist.all_reduce(tensor, group=group)
    checks["all_reduce"] = tensor.equal(4 * torch.arange(10.0) + 6)
    tensor = torch.tensor([0b1100 + rank])
    dist.all_reduce(tensor, op=dist.ReduceOp.BAND, group=group)
    checks["all_reduce BAND"] = tensor.tolist() == [0b1100]
    output = torch.empty(12)
    dist.all_gather_into_tensor(output, full(rank, 3), group=group)
    checks["all_gather_into_tensor"] = output.equal(torch.arange(4.0).repeat_interleave(3))
    output = torch.empty(5, dtype=torch.bfloat16)
    dist.reduce_scatter_tensor(output, torch.arange(20).to(torch.bfloat16), group=group)
    checks["reduce_scatter_tensor"] = output.tolist() == [4.0 * (i + 5 * rank) for i in range(5)]
    output = torch.empty(8, 3)
    rows = torch.arange(24.0).view(8, 3) + 100 * rank
    dist.all_to_all_single(output, rows, group=group)
    wanted = torch.cat([torch.arange(6.0).view(2, 3) + 6 * rank + 100 * peer for peer in range(4)])
    checks["all_to_all_single"] = output.equal(wanted)
    sends = [rank + peer for peer in range(size)]
    output = torch.empty(sum(sends), 2)
    dist.all_to_all_single(output, full(rank, sum(sends), 2), sends, sends, group=group)
    wanted = torch.cat([full(peer, peer + rank, 2) for peer in range(size)])
    checks["all_to_all_single, unequal"] = output.equal(wanted)
    tensor = full(rank, 7)
    dist.broadcast(tensor, 0, group=group)
    checks["broadcast"] = tensor.equal(full(0, 7))
    tensor = full(rank, 7)
    dist.broadcast(tensor, 2, group=group)
    checks["broadcast from another root"] = tensor.equal(full(2, 7))
    tensor = full(rank, 7)
    dist.reduce(tensor, 0, group=group)
    checks["reduce"] = rank > 0 or tensor.equal(full(6, 7))
    parts = [torch.empty(2) for _ in range(size)] if rank == 0 else None
    dist.gather(full(rank, 2), parts, 0, group=group)
    checks["gather"] = rank > 0 or torch.cat(parts).equal(torch.arange(4.0).repeat_interleave(2))
    parts = [full(peer, 2) for peer in range(size)] if rank == 0 else None
    output = torch.empty(2)
    dist.scatter(output, parts, 0, group=group)
    checks["scatter"] = output.equal(full(rank, 2))
    dist.barrier(group=group)
    tensor = torch.ones(4)
    dist.all_reduce(tensor, group=group, async_op=True).wait()
    checks["all_reduce, async"] = tensor.equal(full(4, 4))
    parts = [torch.empty(2) for _ in range(size)]
    dist.all_gather(parts, full(rank, 2), group=group)
    checks["all_gather of lists"] = torch.cat(parts).equal(torch.arange(4.0).repeat_interleave(2))
    peer = rank ^ 1
    output = torch.empty(1)
    works = [dist.isend(full(rank, 1), peer, group=group), dist.irecv(output, peer, group=group)]
    for work in works:
        work.wait()
    checks["send and recv"] = output.item() == peer
    return [name for name, right in checks.items() if not right], dict(group.served), heard


def train(transport, example, plans, ranks):
    """Train with gloo and with plans; the losses of both, and what plans have served."""
    os.environ["PCCL_PLANS"] = plans
    warnings.simplefilter("ignore")
    # As if it were started from the shell, with what lies beside it.
    sys.path.insert(0, str(EXAMPLES))
    run = runpy.run_path(str(EXAMPLES / f"{example}.py"))["train"]
    groups = [first_ranks(ranks, backend) for backend in ("gloo", "pccl")]
    if transport.rank >= ranks:
        return None
    before = Counter(groups[1].served)
    losses = [run(group) for group in groups]
    return *losses, dict(groups[1].served - before)


def changes_its_mind(transport, path, counts):
    """The first call is compared between ranks; later ones are not, and must still end with an error."""
    collective = pccl.torch.compile(path, timeout=timedelta(seconds=2))
    for count in counts:
        tensor = torch.zeros(count)
        collective(tensor, tensor)


def compile_own(transport, path):
    pccl.torch.compile(path)
