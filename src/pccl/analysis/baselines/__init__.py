"""Baselines: what people have today, so that everyone can ask "faster than what I have?".

registry    which there are, and :func:`baseline`, which runs one
walks       chunks that go from device to device by themselves
trees       chunks that go along trees; tours for rings, multitree for trees grown together
plan        logical sends laid over links, and timed by contention
routes      fixed routes between devices; grids for groups along the dimensions of a network
"""

from pccl.analysis.baselines.registry import (
    Baseline,
    UnsupportedError,
    baseline,
    baselines,
    find_baseline,
)

__all__ = ["Baseline", "UnsupportedError", "baseline", "baselines", "find_baseline"]
