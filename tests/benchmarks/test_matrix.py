"""A sample of the matrix of exports: every runtime takes what is found with the defaults."""

from __future__ import annotations

import pytest
from benchmarks.matrix import FILES, MATRICES, Case, written

SAMPLE = [
    Case("dgx1", "all-reduce", "64MiB"),
    Case("h100:1", "all-gather", "64MiB"),
    Case("mesh:4x4", "all-to-all", "64KiB"),
    Case("mesh:8x8 row", "reduce-scatter", "64KiB"),
    Case("switch:8", "all-reduce", "64KiB"),
    Case("torus:4x4", "all-reduce", "64MiB"),
]


@pytest.mark.parametrize("case", SAMPLE, ids=str)
def test_every_runtime_takes_it(case: Case) -> None:
    plan = case.plan()
    for target in FILES:
        time, is_written = written(plan, target)
        assert is_written, time


def test_the_sample_is_of_the_matrix() -> None:
    assert set(SAMPLE) <= set(MATRICES["machines"])
    assert len(MATRICES["machines"]) == 9 * 4 * 2
    assert len(MATRICES["defaults"]) * len(FILES) == 45
