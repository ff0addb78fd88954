"""``pccl verify`` and ``pccl show``: what is in a .pccl file, and whether it is right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import examples, print_error, print_facts, print_json, print_table
from pccl.errors import PcclError, VerificationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pccl.algorithm import Algorithm

__all__ = ["show", "verify"]

_FEW = 60  # transfers that are shown without being asked for
_FILE = click.Path(path_type=Path)
_COLUMNS = (
    ">start us",
    ">arrival us",
    ">chunk",
    "collective",
    "from",
    "to",
    ">link",
    ">bytes",
    "receiver",
)


@click.command(
    short_help="Check .pccl files from scratch.",
    epilog=examples("pccl verify a2a.pccl", "pccl verify *.pccl --json"),
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors (and --json).")
def verify(files: tuple[Path, ...], as_json: bool, quiet: bool) -> int:
    """Check .pccl files from scratch: every rule of the network, every promise of the collectives.

    Checked are: every transfer uses an existing link while it is free; the sender has what it sends when it sends it;
    sums count every contribution once; switches keep to their limits; every destination ends with what it was promised.

    The exit code is 1 if a file breaks a rule, 2 if one cannot be read.
    """
    worst, results = 0, []
    for file in files:
        status, text, facts = _check(file)
        worst = max(worst, status)
        results.append(
            {"file": str(file), "correct": not status} | facts | ({"error": text} if status else {})
        )
        if status:
            print_error(text)
        elif not (quiet or as_json):
            click.echo(text)
    if as_json:
        print_json({"files": results})
    return worst


@click.command(
    short_help="Summarize a .pccl file and list its transfers.",
    epilog=examples(
        "pccl show a2a.pccl",
        "pccl show a2a.pccl --transfers --limit 20",
        "pccl show a2a.pccl --transfers --json",
    ),
)
@click.argument("file", type=_FILE)
@click.option(
    "--transfers", is_flag=True, help=f"Print the transfers even if there are more than {_FEW}."
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(0), help="Print at most this many transfers."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def show(file: Path, transfers: bool, limit: int | None, as_json: bool) -> None:
    """Summarize a .pccl file, and list its transfers in the order of time if they are few."""
    from pccl.algorithm import load

    algorithm = load(file)
    count = (
        len(algorithm.transfers)
        if transfers or limit is not None or len(algorithm.transfers) <= _FEW
        else 0
    )
    count = count if limit is None else min(count, limit)
    if as_json:
        print_json(_document(algorithm, file, count if transfers or limit is not None else 0))
        return
    print_facts({"file": str(file)} | algorithm.facts())
    if count:
        click.echo()
        print_table(_COLUMNS, _rows(algorithm, count), count)
    left = len(algorithm.transfers) - count
    if left:
        shown = "further transfers" if count else "transfers"
        click.echo(f"\n{left:,} {shown} are not shown; --transfers shows all, --limit N some")


def _check(file: Path) -> tuple[int, str, dict[str, Any]]:
    """The exit code for one file, the line to print, and what it holds."""
    from pccl.algorithm import load
    from pccl.algorithm import verify as check

    facts: dict[str, Any] = {}
    try:
        algorithm = load(file)
        facts = {
            "topology": algorithm.topology.name,
            "collectives": [collective.kind for collective in algorithm.collectives],
            "chunks": len(algorithm.conditions),
            "transfers": len(algorithm.transfers),
        }
        check(algorithm)
    except VerificationError as error:
        return 1, f"{file}: {error}", facts
    except PcclError as error:
        return 2, str(error), facts
    return (
        0,
        f"{file}: correct: {_what(algorithm)}",
        facts | {"duration_ps": int(algorithm.duration)},
    )


def _what(algorithm: Algorithm) -> str:
    kinds = Counter(collective.kind for collective in algorithm.collectives)
    tasks = " and ".join(
        kind if number == 1 else f"{number} x {kind}" for kind, number in kinds.items()
    )
    counts = f"{len(algorithm.transfers):,} transfers deliver {len(algorithm.conditions):,} chunks"
    return f"{tasks} on {algorithm.topology.name}; {counts} in {algorithm.duration_text}"


def _rows(algorithm: Algorithm, count: int) -> Iterator[tuple[object, ...]]:
    """The first transfers by start, as people read them."""
    topology = algorithm.topology
    for row in _by_time(algorithm, count):
        kind = algorithm.collectives[row["collective"]].kind
        yield (
            f"{row['start_ps'] / 1e6:,.3f}", f"{row['arrival_ps'] / 1e6:,.3f}", row["chunk"],
            f"{row['collective']} {kind}" if len(algorithm.collectives) > 1 else kind,
            topology.device_text(row["src"]), topology.device_text(row["dst"]), row["link"], row["bytes"],
            "adds" if row["reduce"] else "keeps",
        )  # fmt: skip


def _by_time(algorithm: Algorithm, count: int) -> Iterator[dict[str, Any]]:
    import numpy as np

    t = algorithm.transfers
    order = np.lexsort((t.link, t.start))[:count]
    columns: dict[str, NDArray[Any]] = {
        "start_ps": t.start, "arrival_ps": t.arrival, "chunk": t.chunk,
        "collective": algorithm.conditions.collective[t.chunk], "src": t.src, "dst": t.dst, "link": t.link,
        "bytes": t.bytes, "reduce": t.reduce,
    }  # fmt: skip
    for values in zip(*(column[order].tolist() for column in columns.values()), strict=True):
        yield dict(zip(columns, values, strict=True))


def _document(algorithm: Algorithm, file: Path, count: int) -> dict[str, Any]:
    from pccl.cli.synthesize import describe

    transfers = {"first_transfers": list(_by_time(algorithm, count))} if count else {}
    return describe(algorithm, file) | transfers
