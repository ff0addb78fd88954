"""A few steps of training with FSDP2, whose all-gathers and reduce-scatters follow plans.

The program is as it always was; what differs is the name of the backend, and a folder of plans::

    pccl synthesize -t ring:4 -c all-gather -s 1MiB -o plans/all-gather.pccl
    pccl synthesize -t ring:4 -c reduce-scatter -s 1MiB -o plans/reduce-scatter.pccl
    PCCL_PLANS=plans torchrun --nproc-per-node 4 examples/train_fsdp.py pccl
    torchrun --nproc-per-node 4 examples/train_fsdp.py gloo
"""

from __future__ import annotations

import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

STEPS = 4


def train(group: Any = None) -> list[float]:
    """Train a small network on numbers of this rank; the losses of the steps, averaged over all ranks."""
    torch.manual_seed(0)
    layers = [nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)]
    model = nn.Sequential(*layers)
    mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
    for layer in layers[::2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
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


def main() -> None:
    backend = sys.argv[1] if len(sys.argv) > 1 else "pccl"
    if backend == "pccl":
        import pccl.torch  # noqa: F401  (makes the backend known)
    dist.init_process_group(backend)
    losses = train()
    if dist.get_rank() == 0:
        print(f"{backend}: losses {', '.join(f'{loss:.6f}' for loss in losses)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
