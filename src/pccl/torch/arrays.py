"""Buffers, copies and sums of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from pccl._arrays import Column
from pccl.errors import RunError
from pccl.runtime.arrays import DTYPES, carrier

_OPS: dict[str, Any] = {
    "sum": torch.add,
    "avg": torch.add,
    "prod": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
}
# PyTorch adds and multiplies few unsigned types; in two's complement the signed ones do the same.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


class TorchArrays:
    """The tensors of PyTorch on one device."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def empty(self, count: int, dtype: str) -> torch.Tensor:
        """A buffer of so many elements, which mean nothing."""
        return torch.empty(count, dtype=getattr(torch, dtype), device=self.device)

    def numbers(self, values: Sequence[int]) -> torch.Tensor:
        """A tensor of 64-bit integers."""
        return torch.tensor(values, dtype=torch.int64, device=self.device)

    def dtype(self, array: torch.Tensor) -> str:
        """The type of the elements of a tensor."""
        name = str(array.dtype).removeprefix("torch.")
        if name not in DTYPES:
            raise RunError(
                f"tensors of {name} are not sent by plans; there are {', '.join(DTYPES)}"
            )
        return name

    def copy(self, target: torch.Tensor, source: torch.Tensor) -> None:
        """Copy all elements."""
        target.copy_(source)

    def combine(
        self, op: str, target: torch.Tensor, one: torch.Tensor, other: torch.Tensor
    ) -> None:
        """Write what the operation makes of two tensors into a third."""
        signed = _SIGNED.get(target.dtype) if op in ("sum", "prod") else None
        if signed is not None:
            target, one, other = target.view(signed), one.view(signed), other.view(signed)
        _OPS[op](one, other, out=target)

    def divide(self, array: torch.Tensor, by: int) -> None:
        """Divide all elements."""
        if not array.dtype.is_floating_point:
            raise RunError(f"an average of {array.dtype} is not defined; take a sum")
        array.div_(by)

    def address(self, array: torch.Tensor) -> int:
        """Where the tensor begins in memory."""
        found: int = array.data_ptr()
        return found

    def synchronize(self) -> None:
        """Return when all that was begun on a GPU is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def native(self, values: Column, dtype: str) -> torch.Tensor:
        """A new tensor of this type with these values."""
        return torch.from_numpy(values.copy()).to(self.device, getattr(torch, dtype))

    def values(self, array: torch.Tensor) -> Column:
        """The values of a tensor, for NumPy."""
        kind = carrier(str(array.dtype).removeprefix("torch."))
        found: Column = array.cpu().to(getattr(torch, str(kind))).numpy()
        return found
