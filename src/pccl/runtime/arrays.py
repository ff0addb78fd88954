"""What ranks do with numbers: buffers, copies and sums. This is NumPy; other libraries have modules of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from pccl._arrays import Column
from pccl.errors import RunError

# What is done with what arrives, as nccl-tests calls it. Averages are sums, divided at last.
OPS = ("sum", "prod", "max", "min", "avg")
UFUNCS = {"sum": np.add, "avg": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
# Types of elements, by the names that PyTorch and NumPy have for them; ranks tell each other the number of one.
DTYPES = (
    "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
_FLOATS_OF_OTHERS = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


class Arrays(Protocol):
    """What a transport can send, and how it is added up; arrays have one dimension and lie in one piece."""

    def empty(self, count: int, dtype: str) -> Any:
        """A buffer of so many elements, which mean nothing."""

    def numbers(self, values: Sequence[int]) -> Any:
        """An array of 64-bit integers."""

    def dtype(self, array: Any) -> str:
        """The type of the elements of an array: one of ``DTYPES``."""

    def copy(self, target: Any, source: Any) -> None:
        """Copy all elements."""

    def combine(self, op: str, target: Any, one: Any, other: Any) -> None:
        """Write the sum (product, maximum, minimum) of two arrays into a third, which may be one of them."""

    def divide(self, array: Any, by: int) -> None:
        """Divide all elements, to make an average of a sum."""

    def address(self, array: Any) -> int:
        """Where the array begins in memory, in bytes."""

    def synchronize(self) -> None:
        """Return when all that was begun is done."""

    def native(self, values: Column, dtype: str) -> Any:
        """A new array of this type with these values."""

    def values(self, array: Any) -> Column:
        """The values of an array, for NumPy; see :func:`carrier` for types that it does not have."""


class NumpyArrays:
    """The arrays of NumPy."""

    def empty(self, count: int, dtype: str) -> Any:
        """A buffer of so many elements, which mean nothing."""
        return np.empty(count, numpy_dtype(dtype))

    def numbers(self, values: Sequence[int]) -> Any:
        """An array of 64-bit integers."""
        return np.array(values, np.int64)

    def dtype(self, array: Any) -> str:
        """The type of the elements of an array."""
        return str(array.dtype)

    def copy(self, target: Any, source: Any) -> None:
        """Copy all elements."""
        target[:] = source

    def combine(self, op: str, target: Any, one: Any, other: Any) -> None:
        """Write what the operation makes of two arrays into a third."""
        UFUNCS[op](one, other, out=target)

    def divide(self, array: Any, by: int) -> None:
        """Divide all elements."""
        if array.dtype.kind in "iu":
            raise RunError(f"an average of {array.dtype} is not defined; take a sum")
        array /= array.dtype.type(by)

    def address(self, array: Any) -> int:
        """Where the array begins in memory."""
        found: int = array.__array_interface__["data"][0]
        return found

    def synchronize(self) -> None:
        """Return at once: nothing is left undone."""

    def native(self, values: Column, dtype: str) -> Any:
        """A new array of this type with these values."""
        return values.astype(numpy_dtype(dtype))

    def values(self, array: Any) -> Column:
        """The values of an array."""
        return np.asarray(array, carrier(str(array.dtype)))


def carrier(dtype: str) -> Any:
    """The type of NumPy that has all values of a type which NumPy may not have itself."""
    return np.dtype("float32" if dtype in _FLOATS_OF_OTHERS else dtype)


def numpy_dtype(name: str) -> Any:
    """The type of NumPy by its name; those of machine learning take the package ml_dtypes."""
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        raise RunError(
            f"NumPy has no {name} by itself; install ml-dtypes, or run on torch"
        ) from None
    return np.dtype(getattr(ml_dtypes, name))
