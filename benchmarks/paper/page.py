"""The page that shows what the paper states, what we find, and how."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np

from benchmarks.paper.setting import Claim, Row

HEAD = """\
# The paper, reproduced

Every figure and example of the PCCL paper that states a number, made again by

```sh
make paper
```

which runs `benchmarks/paper/`, one module for each, draws the figures and writes this page. Times of synthesis are
measured on the machine below; everything else is the same on every machine.

- **Machine**: {machine}
- **Model**: links of 50 GiB/s and 500 ns, held for the latency too (`exclusive=True`, the paper's time-expanded
  network), and chunks of 1 MiB, unless a section says otherwise. Times come from our simulator, where the paper has
  ASTRA-sim.
- **The paper's method**: one chunk after another, the farthest first, each by the route on which it arrives earliest:
  `synthesize(..., effort="fast", method="earliest-arrival", order="farthest-first", routes="any")`.
- **Our search**: `synthesize(topology, ...)` as it comes, which also chooses the number of chunks. Where the time of
  synthesis is measured, chunks are given and it makes one pass (`effort="fast"`).
- **Direct**: every NPU sends each other member its chunks by itself along a fixed route, row first; all are issued at
  once and links serve first come, first served (the paper: "pairwise point-to-point send-receive").
- **Placement**: where the paper does not say which NPUs form a group, we tried what is plausible, show what comes
  closest to its number, and say what another placement gives. So agreement there shows that the paper's number can be
  had, not that its setting was this one.
- Every algorithm whose duration is shown has passed the verifier.

## At a glance
"""


def write(path: Path, results: Mapping[str, tuple[ModuleType, Sequence[Row]]]) -> None:
    """Write the page; figures lie in images/paper beside it."""
    parts = [HEAD.format(machine=machine())]
    glance = [(f"[{module.TITLE}](#{_anchor(module.TITLE)})", claim) for module, rows in results.values()
              for claim in module.claims(rows)]  # fmt: skip
    cells = [
        (title, claim.what, claim.paper, claim.method, claim.search) for title, claim in glance
    ]
    parts.append(
        table(
            ("figure", "what", "the paper states", "the paper's method, here", "our search"), cells
        )
    )
    for name, (module, rows) in results.items():
        parts.append(section(name, module, rows))
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def section(name: str, module: ModuleType, rows: Sequence[Row]) -> str:
    """Choices, figure, claims and rows of one module."""
    whys = [f"- **{claim.what}**: {claim.paper} in the paper, {claim.method} by its method here, {claim.search} by our "
            f"search. {claim.why}" for claim in module.claims(rows)]  # fmt: skip
    return "\n".join([
        f"\n## {module.TITLE}\n",
        choices(module, rows),
        f"\n![{module.TITLE}](images/paper/{name}.svg)\n",
        *whys,
        "\n<details><summary>All numbers</summary>\n",
        rows_table(rows),
        "\n</details>",
    ])  # fmt: skip


def choices(module: ModuleType, rows: Sequence[Row]) -> str:
    """What the module chose where the paper leaves it open."""
    return module.choices(rows) if hasattr(module, "choices") else module.CHOICES


def rows_table(rows: Sequence[Row]) -> str:
    """Rows as a table, without what is only for the figure."""
    columns = list(
        dict.fromkeys(
            c for row in rows for c, value in row.items() if not isinstance(value, np.ndarray)
        )
    )
    return table(columns, [[text(row[c]) if c in row else "" for c in columns] for row in rows])


def claims_table(claims: Iterable[Claim]) -> str:
    """The paper's numbers beside ours."""
    cells = [(claim.what, claim.paper, claim.method, claim.search, claim.why) for claim in claims]
    return table(
        ("what", "the paper states", "the paper's method, here", "our search", "why"), cells
    )


def table(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text(value: object) -> str:
    """A value as a cell shows it: four digits are enough."""
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" if value < 1 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def machine() -> str:
    """The processor, its cores, and Python."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [
            line.partition(":")[2].strip()
            for line in info.read_text().splitlines()
            if line.startswith("model name")
        ]
        cpu = models[0] if models else cpu
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _anchor(title: str) -> str:
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")
