"""``pccl run --on torch``: ranks over gloo, started here, or those of a job that torchrun has started."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from pccl.algorithm import Algorithm
from pccl.runtime.measure import Job, Report, join, run_in_pool
from pccl.runtime.sockets import LOOPBACK
from pccl.torch.transport import TorchTransport


def run(algorithm: Algorithm, job: Job) -> Report:
    """Run a plan on torch.distributed."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return run_in_pool(algorithm, job, "pccl.torch.measure:connect")
    timeout = timedelta(seconds=job.timeout)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timeout)
    try:
        group = dist.group.WORLD
        transport = TorchTransport(group, device, timeout, batched=device.type == "cuda")
        return join(transport, algorithm, job)
    finally:
        dist.destroy_process_group()


def connect(
    rank: int, size: int, meet: Callable[[Any], list[Any]], timeout: float
) -> TorchTransport:
    """Connect ranks that were started here, over gloo and on this machine alone."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    limit = timedelta(seconds=timeout)
    first = rank == 0
    store = dist.TCPStore(LOOPBACK, 0, size, first, limit, False) if first else None
    port = meet(store.port if store is not None else None)[0]
    if store is None:
        store = dist.TCPStore(LOOPBACK, port, size, False, limit, False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=limit)
    return TorchTransport(dist.group.WORLD, torch.device("cpu"), limit)
