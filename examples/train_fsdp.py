"""A few steps of training with FSDP2, whose all-gathers and reduce-scatters follow plans.

The program is as it always was; what differs is the name of the backend, and a folder of plans::

    pccl synthesize -t ring:4 -c all-gather -s 1MiB -o plans/all-gather.pccl
    pccl synthesize -t ring:4 -c reduce-scatter -s 1MiB -o plans/reduce-scatter.pccl
    PCCL_PLANS=plans torchrun --nproc-per-node 4 examples/train_fsdp.py pccl
    torchrun --nproc-per-node 4 examples/train_fsdp.py gloo
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import training


def train(group: Any = None) -> list[float]:
    """Train a small network on numbers of this rank; the losses of the steps, averaged over all ranks."""
    torch.manual_seed(0)
    layers = [nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)]
    model = nn.Sequential(*layers)
    mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
    for layer in layers[::2]:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return training.steps(model, group)


if __name__ == "__main__":
    training.main(train)
