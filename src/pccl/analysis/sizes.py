"""How long an algorithm takes with data of another size than it was planned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pccl._arrays import Ints
from pccl.algorithm import Algorithm
from pccl.analysis.simulator import Simulation, play
from pccl.collective import Conditions
from pccl.errors import PcclError
from pccl.units import Picoseconds


def time_at(algorithm: Algorithm, *sizes: int, element: int = 1) -> Picoseconds:
    """How long the plan takes with so many bytes: the same transfers in the same order, each as early as it can be.

    Plans are for ratios: shares and their pieces are cut anew, as runtimes do. What is empty then is not sent.

    Parameters
    ----------
    algorithm
        The plan.
    *sizes
        Bytes of every collective; none at all if they are those of the plan.
    element
        Bytes of an element, which is never cut.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> plan = pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1))
    >>> time_at(plan) == plan.duration
    True
    >>> [str(time_at(plan, size)) for size in (8_000, 4_000, 3, 0)]
    ['4us', '2us', '2ns', '0ps']
    """
    simulation, _ = _play_at(algorithm, sizes, element)
    return simulation.finish


def played_at(algorithm: Algorithm, *sizes: int, element: int = 1) -> Algorithm:
    """The plan as it runs with so many bytes, without what is empty then; its collectives are those of the plan.

    The parameters are those of :func:`time_at`.

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> plan = pccl.synthesize(ring, pccl.AllGather("4kB", chunks=1))
    >>> played = played_at(plan, 3)
    >>> len(plan.transfers), len(played.transfers), played.conditions.bytes.tolist(), played.duration_text
    (12, 9, [1, 1, 1, 0], '2.00 ns')
    """
    simulation, conditions = _play_at(algorithm, sizes, element)
    kept = simulation.algorithm
    transfers = replace(kept.transfers, conditions=conditions).timed(simulation.start)
    return replace(kept, transfers=transfers)


def _play_at(
    algorithm: Algorithm, sizes: Sequence[int], element: int
) -> tuple[Simulation, Conditions]:
    """What becomes of the plan without what is empty, and its chunks as large as they are then."""
    chunk_bytes = _chunk_bytes(algorithm, sizes, element) if sizes else algorithm.conditions.bytes
    conditions = replace(algorithm.conditions, bytes=chunk_bytes)
    transfers = algorithm.transfers
    if not np.all(chunk_bytes):
        transfers = transfers.of_chunks(chunk_bytes > 0)
    kept = replace(algorithm, transfers=transfers, bound=None)
    # Planned starts and sizes say what waits for what; only how long transfers take is new.
    transmission = replace(transfers, conditions=conditions).transmission
    return play(kept, "planned", algorithm.topology, transmission), conditions


def _chunk_bytes(algorithm: Algorithm, sizes: Sequence[int], element: int) -> Ints:
    """What every chunk of the plan has, if the collectives have these sizes."""
    if len(sizes) != len(algorithm.collectives):
        raise PcclError(f"{len(sizes)} sizes for {len(algorithm.collectives)} collectives")
    columns = []
    for collective, size in zip(algorithm.collectives, sizes, strict=True):
        count, rest = divmod(size, element)
        if rest:
            raise PcclError(f"{size} bytes are not a whole number of elements of {element} bytes")
        conditions = collective.conditions(algorithm.topology)
        elements = np.zeros(len(conditions), np.int64)
        if count:
            group = collective.members(algorithm.topology.npus)
            elements = collective.sizes_in(conditions, group, collective.with_elements(count))
        columns.append(elements * element)
    return np.concatenate(columns)
