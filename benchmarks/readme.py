"""The tables of the README, taken from the pages that benchmarks write: ``python -m benchmarks.readme``.

Good rows and bad ones, chosen once; what they say is what was measured last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
QUALITY = ROOT / "docs" / "quality.md"
LAB = ROOT / "docs" / "lab.md"

# By section of the page on quality: the workloads whose rows the README shows, whatever their number of chunks.
WORKLOADS = {
    "All-Gather": ("mesh 8x8x8",),
    "All-to-All": ("mesh 8x8",),
    "Process groups: rows of the 8x8 mesh": ("All-to-All, one row, 64 chunks",),
    "Irregular networks, 4 chunks": ("All-to-All, random 4-regular, 64 NPUs",),
    "Machines, 1 GB": (
        "All-Gather, dgx1",
        "All-Reduce, dgx1",
        "All-Gather, h100:4",
        "All-to-All, h100:4",
        "All-Reduce, h100:4",
        "All-Reduce, dgx2:2",
        "All-Reduce, mi250:2",
    ),
    "Machines, 64 MB": ("Broadcast, h100:4",),
    "Machines, 1 MB": (
        "All-to-All, a100:2",
        "All-Gather, h100:4",
        "All-Reduce, h100:4",
        "All-Reduce, mesh:8x8",
        "All-Reduce, mi250:2",
        "Reduce, mi250:2",
    ),
    "Machines, 64 KiB": ("All-Gather, dgx1", "All-Reduce, dgx1"),
    "Machines, 1 KiB": ("All-Reduce, dgx1", "All-Reduce, h100:4", "All-Reduce, mi250:2"),
}
RUNS = (
    "mesh:3x3, all-to-all, one row",
    "mesh:4x4, all-to-all, all",
    "mesh:4x4, all-to-all, one row",
    "mesh:4x4, all-gather, one row",
)


def main() -> None:
    README.write_text(renewed(README.read_text(encoding="utf-8")), encoding="utf-8")


def renewed(text: str) -> str:
    """The README with the tables that the pages have now."""
    text = _put(text, "quality", quality_table(QUALITY.read_text(encoding="utf-8")))
    return _put(text, "lab", lab_table(LAB.read_text(encoding="utf-8")))


def quality_table(page: str) -> Iterator[str]:
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    rows_of = {title: text for title, _, text in (one.partition("\n") for one in sections)}
    yield "| workload | ours | as messages | bound | gap | CPU s | best baseline |"
    yield "|---|---|---|---|---|---|---|"
    for section, names in WORKLOADS.items():
        size = section.removeprefix("Machines, ") if "Machines" in section else ""
        kind = section if section.startswith("All-") else ""
        for name in names:
            found, time, messages, bound, gap, _, seconds, _, other = _row(rows_of[section], name)
            title = ", ".join(filter(None, (kind, found, size)))
            yield f"| {title} | {time} | {messages} | {bound} | {gap} | {seconds} | {other} |"


def lab_table(page: str) -> Iterator[str]:
    yield "| workload | planned | measured | Direct, modelled | measured |"
    yield "|---|---|---|---|---|"
    for name in RUNS:
        found, planned, measured, _, modelled, direct, *_ = _row(page, name)
        yield f"| {found} | {planned} | {measured} | {modelled} | {direct} |"


def _row(text: str, name: str) -> list[str]:
    """The cells of the row of a workload."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| "))
    return next(cells for cells in rows if _is(cells[0], name))


def _is(found: str, name: str) -> bool:
    """Whether a row is that of a workload: its number of chunks and a mark may come after its name."""
    return (
        re.fullmatch(rf"{re.escape(name)}(, \d+ chunks?)?( \*\*\(missed\)\*\*)?", found) is not None
    )


def _put(text: str, name: str, lines: Iterator[str]) -> str:
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return "\n".join([before + begin, *lines, "", end + after])


if __name__ == "__main__":
    main()
