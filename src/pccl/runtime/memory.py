"""How much memory the data of a plan take when ranks of this machine run it, asked for before it is taken."""

from __future__ import annotations

import numpy as np

from pccl._arrays import distinct
from pccl._memory import free_memory
from pccl.algorithm import Algorithm
from pccl.collective.base import ELEMENT_BYTES
from pccl.errors import RunError
from pccl.runtime.arrays import carrier
from pccl.units import Bytes, size_text

# What is taken without being asked for: so much, and of what is free such a part.
MOST_UNASKED = 2**30
_PART_UNASKED = 4


def data_bytes(algorithm: Algorithm, dtype: str = "uint8", size: int | None = None) -> int:
    """About how many bytes the buffers of all ranks take, and the numbers that they are compared with.

    Parameters
    ----------
    algorithm
        The plan.
    dtype
        The type of the elements.
    size
        The bytes of the first collective, of which the others keep their ratio; by default those planned.

    Examples
    --------
    >>> import pccl
    >>> data_bytes(pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB"))) // 2**20
    32
    """
    conditions = algorithm.conditions
    transfers = algorithm.transfers
    began = int(conditions.bytes @ np.diff(conditions.source_offsets))
    # What a rank receives has one place, however often it comes; switches hold nothing.
    arrives = np.isin(transfers.dst, algorithm.topology.npus)
    key = transfers.dst[arrives].astype(np.int64) * len(conditions) + transfers.chunk[arrives]
    chunks, counts = np.unique(distinct(key) % max(len(conditions), 1), return_counts=True)
    received = int(conditions.bytes[chunks] @ counts)
    planned = max(int(algorithm.collectives[0].size), 1)
    # The numbers are made, and compared, in a type that NumPy has.
    width = ELEMENT_BYTES.get(dtype, 1)
    own = (width + carrier(dtype).itemsize) / width
    return int((began + received) * own * ((planned if size is None else size) / planned))


def size_unasked(algorithm: Algorithm, dtype: str) -> int:
    """The size to run a plan with where nobody says: that of the plan, or less if its data would take much memory."""
    planned = int(algorithm.collectives[0].size)
    limit = min(MOST_UNASKED, free_memory() // _PART_UNASKED)
    needed = data_bytes(algorithm, dtype)
    if needed <= limit:
        return planned
    # A size that people would choose, and of whole elements of any type.
    size = max(planned * limit // needed, ELEMENT_BYTES.get(dtype, 1))
    smaller: int = 2 ** (size.bit_length() - 1)
    return smaller


def check_fits(algorithm: Algorithm, dtype: str, size: int) -> None:
    """Raise if the data of all ranks would not fit into what is free."""
    needed = data_bytes(algorithm, dtype, size)
    free = free_memory()
    if needed > free:
        raise RunError(
            f"with {Bytes(size)}, the data of {len(algorithm.topology.npus)} ranks take about {size_text(needed)} of "
            f"memory, and {size_text(free)} is free; take a smaller --size"
        )
