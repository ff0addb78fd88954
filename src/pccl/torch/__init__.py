"""Plans in PyTorch programs; the only part of pccl that imports torch.

compile     compile(): a plan as a function on tensors, called by all ranks of a process group
backend     the backend "pccl": collectives of unmodified programs from a folder of plans
transport   messages over the send and receive of any backend
ipc         copies between the GPU memories of one box, without NCCL
arrays      buffers, copies and sums
measure     what ``pccl run --on torch`` does
"""

from __future__ import annotations

from pccl.torch.backend import register
from pccl.torch.compile import Collective, compile  # noqa: A004

register()

__all__ = ["Collective", "compile"]
