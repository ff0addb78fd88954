"""The comparison at many sizes, each with an algorithm of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pccl.analysis.comparison import Comparison, Progress, compare
from pccl.collective import Collective
from pccl.errors import PcclError
from pccl.settings import Settings
from pccl.synthesis import synthesize
from pccl.topology import Topology
from pccl.units import Bytes, parse


def size_range(text: str, step: int = 2) -> tuple[Bytes, ...]:
    """The sizes from one to another, each so many times as large as the one before it.

    Examples
    --------
    >>> [str(size) for size in size_range("1K:64K", step=4)]
    ['1KiB', '4KiB', '16KiB', '64KiB']
    """
    first, colon, last = text.partition(":")
    size = int(parse(Bytes, first, "first of the sizes"))
    end = int(parse(Bytes, last, "last of the sizes")) if colon else size
    if not 0 < size <= end:
        raise PcclError(f"the sizes {text!r} are an empty range; write for example 1M:1G")
    if step < 2:
        raise PcclError(f"each size must be at least twice the one before it, not {step} times")
    sizes = []
    while size <= end:
        sizes.append(Bytes(size))
        size *= step
    return tuple(sizes)


def of_size(
    topology: Topology, collectives: Sequence[Collective], size: Bytes
) -> tuple[Collective, ...]:
    """The same collectives with another size, which may be too little for as many chunks."""
    sized = []
    for collective in collectives:
        if not collective.has_one_size:
            raise PcclError(
                f"the sizes cannot change {collective.kind}, whose parts have sizes of their own"
            )
        one = replace(collective, size=size)
        if one.chunks is not None:
            one = replace(one, chunks=min(one.chunks, max(one.most_pieces(topology), 1)))
        sized.append(one)
    return tuple(sized)


def sweep(
    topology: Topology,
    collectives: Sequence[Collective],
    sizes: Sequence[Bytes],
    baselines: Sequence[str] | None = None,
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> tuple[Comparison, ...]:
    """Synthesize the collectives at each size, and compare.

    Parameters
    ----------
    topology, collectives
        What to run, and where. Where the number of chunks is left open, it is searched for at each size.
    sizes
        All collectives get each of these sizes.
    baselines
        As for :func:`pccl.compare`.
    settings
        How to search.
    progress
        Called with (sizes done, sizes in all, what is going on).

    Examples
    --------
    >>> import pccl
    >>> ring = pccl.topology.ring(4, latency="0ns", bandwidth="1GB/s")
    >>> found = sweep(ring, [pccl.AllGather("4kB", chunks=1)], size_range("4kB:16kB"), ["ring"])
    >>> [str(comparison.ours.duration) for comparison in found]
    ['2us', '4us', '8us']
    """
    found = []
    for done, size in enumerate(sizes):

        def report(_: int, __: int, text: str, done: int = done, size: Bytes = size) -> None:
            if progress is not None:
                progress(done, len(sizes), f"{size}: {text}")

        task = of_size(topology, collectives, size)
        ours = synthesize(topology, *task, settings=settings, progress=report)
        target = None if settings is None else settings.target
        found.append(compare(ours, baselines, network=topology, target=target, progress=report))
    return tuple(found)
