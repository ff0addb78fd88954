"""CPU times of this checkout beside those of another: what ``--against FOLDER`` of a benchmark prints."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

HERE = Path(__file__).parents[1]
TOLERATED = 0.1
CLOCK = 0.001  # seconds: what is shorter cannot be told apart


def add_option(parser: argparse.ArgumentParser) -> None:
    """Let a benchmark be asked to compare."""
    parser.add_argument(
        "--against",
        type=lambda folder: Path(folder).resolve(),
        help="compare with another checkout, such as a worktree of HEAD~1",
    )


def environment(checkout: Path) -> dict[str, str]:
    """What a process needs to take pccl from a checkout."""
    return os.environ | {"PYTHONPATH": str(checkout / "src")}


class Comparison:
    """Rows of a table, and which of them have become slower."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._slower: list[str] = []

    def add(self, name: str, ours: list[float], theirs: list[float]) -> None:
        """Print the best of both; each list holds the seconds of several runs."""
        here = min(ours)
        there = min(theirs)
        ratio = here / there
        print(f"{name:<{self._width}} {here:9.4f} {there:9.4f} {ratio:6.2f}", flush=True)
        if here > (1 + TOLERATED) * there + CLOCK:
            self._slower.append(name)

    def finish(self) -> None:
        """Exit non-zero if anything is slower."""
        if self._slower:
            raise SystemExit(f"slower than there: {', '.join(self._slower)}")
