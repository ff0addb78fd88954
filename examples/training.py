"""What the examples of training share: a few steps on numbers of each rank, with whatever backend is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

STEPS = 4


def steps(model: nn.Module, group: Any = None) -> list[float]:
    """Train a model that takes 16 numbers; the losses of the steps, averaged over all ranks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(1 + dist.get_rank(group))
    losses = []
    for _ in range(STEPS):
        sample = torch.randn(32, 16)
        loss = (model(sample) - sample.sum(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown = loss.detach().clone()
        dist.all_reduce(shown, group=group)
        losses.append(float(shown) / dist.get_world_size(group))
    return losses


def main(train: Callable[[], list[float]]) -> None:
    """Train with the backend that the command line names, and print the losses."""
    backend = sys.argv[1] if len(sys.argv) > 1 else "pccl"
    if backend == "pccl":
        import pccl.torch  # noqa: F401  (makes the backend known)
    dist.init_process_group(backend)
    losses = train()
    if dist.get_rank() == 0:
        print(f"{backend}: losses {', '.join(f'{loss:.6f}' for loss in losses)}")
    dist.destroy_process_group()
