"""A few steps of training with DistributedDataParallel, whose all-reduces follow a plan.

The program is as it always was; what differs is the name of the backend, and a folder of plans::

    pccl synthesize -t ring:4 -c all-reduce -s 1MiB -o plans/all-reduce.pccl
    PCCL_PLANS=plans torchrun --nproc-per-node 4 examples/train_ddp.py pccl
    torchrun --nproc-per-node 4 examples/train_ddp.py gloo
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import training


def train(group: Any = None) -> list[float]:
    """Train a small network on numbers of this rank; the losses of the steps, averaged over all ranks."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    model = DistributedDataParallel(network, process_group=group)
    return training.steps(model, group)


if __name__ == "__main__":
    training.main(train)
