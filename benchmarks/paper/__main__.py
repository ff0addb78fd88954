"""Make the figures of the paper again, and the page that shows them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.paper import MODULES, module, page


def main() -> None:
    """Run the modules named, or all of them; only all of them make the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"what to run instead of all: {', '.join(MODULES)}"
    )
    parser.add_argument(
        "--docs", type=Path, default=Path("docs"), help="where the page goes (default: docs)"
    )
    parser.add_argument(
        "--format", choices=("svg", "png"), default="svg", help="of the figures (default: svg)"
    )
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in MODULES]
    if unknown:
        parser.error(f"there is no figure {unknown[0]!r}; there are {', '.join(MODULES)}")
    images = asked.docs / "images" / "paper"
    images.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in asked.names or MODULES:
        found, begin = module(name), time.perf_counter()
        rows = found.run()
        found.draw(rows, images / f"{name}.{asked.format}")
        results[name] = found, rows
        print(f"\n{found.TITLE} ({time.perf_counter() - begin:.1f} s)\n", flush=True)
        print(
            page.rows_table(rows), "\n", page.claims_table(found.claims(rows)), sep="\n", flush=True
        )
    if not asked.names:
        page.write(asked.docs / "paper.md", results)


if __name__ == "__main__":
    main()
