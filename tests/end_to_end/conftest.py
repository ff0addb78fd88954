from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.program import pccl


@pytest.fixture(scope="session")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An algorithm for an All-Gather on a ring of four, in a file that tests must not change."""
    path = tmp_path_factory.mktemp("ring") / "ring.pccl"
    assert (
        pccl(
            "synthesize",
            "-t",
            "ring:4",
            "-c",
            "all-gather",
            "-s",
            "4MiB",
            "--chunks",
            "1",
            "-o",
            path,
        ).exit_code
        == 0
    )
    return path
