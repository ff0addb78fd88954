"""``pccl show`` and ``pccl verify``: what is in .pccl files, and whether they are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import (
    microseconds,
    print_error,
    print_facts,
    print_json,
    print_line,
    print_table,
    rows_of,
)
from pccl.cli.options import FILE, command, file_argument, json_option, option, quiet_option
from pccl.errors import PcclError, VerificationError
from pccl.units import counted

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.analysis import CollectiveRow

# Transfers that are shown without being asked for.
_FEW = 60
# Of a transfer: what JSON calls it, and what the table calls it.
_COLUMNS = {
    "start_ps": ">start us",
    "arrival_ps": ">arrival us",
    "chunk": ">chunk",
    "collective": "collective",
    "src": "from",
    "dst": "to",
    "link": ">link",
    "bytes": ">bytes",
    "reduce": "receiver",
}


@command(
    "pccl show a2a.pccl",
    "pccl show a2a.pccl --transfers --limit 20",
    "pccl show a2a.pccl --transfers --json",
)
@file_argument
@option("--transfers", f"Print the transfers even if there are more than {_FEW}.")
@option("--limit N", "Print at most this many transfers.", type=click.IntRange(0))
@json_option
def show(file: Path, transfers: bool, limit: int | None, as_json: bool) -> None:
    """Summarize a .pccl file, and list its transfers in the order of time if they are few."""
    from pccl.algorithm import load

    algorithm = load(file)
    count = len(algorithm.transfers)
    # A limit alone is a wish to see transfers as well.
    is_asked = transfers or limit is not None
    most = count if limit is None else limit
    if as_json:
        document = describe(algorithm, file, each_of(algorithm))
        # Only on request: a document should not change its size with the algorithm.
        if is_asked and min(count, most):
            document["first_transfers"] = list(_by_time(algorithm, most))
        print_json(document)
        return
    print_facts({"file": str(file)} | algorithm.facts())
    print_each_collective(each_of(algorithm))
    # Few are shown anyway; a hundred thousand would hide the summary above them.
    shown = min(count, most) if is_asked or count <= _FEW else 0
    if shown:
        click.echo()
        rows = (_row(algorithm, row) for row in _by_time(algorithm, shown))
        print_table(list(_COLUMNS.values()), rows, shown)
    # What is left out is said, so that nobody takes a part for the whole.
    if shown < count:
        which = "further transfers" if shown else "transfers"
        click.echo(
            f"\n{count - shown:,} {which} are not shown; --transfers shows all, --limit N some"
        )


def describe(
    algorithm: Algorithm, file: Path | None, each: Sequence[CollectiveRow]
) -> dict[str, Any]:
    """Return what ``--json`` says about an algorithm; times in picoseconds are exact."""
    topology = algorithm.topology
    provenance = algorithm.provenance
    bound = algorithm.bound
    return {
        "file": file and str(file),
        "topology": {
            "name": topology.name,
            "npus": topology.num_npus,
            "switches": len(topology.switches),
            "links": topology.num_links,
        },
        "collectives": [collective.to_dict() for collective in algorithm.collectives],
        "chunks": len(algorithm.conditions),
        "transfers": len(algorithm.transfers),
        "bytes_moved": int(algorithm.transfers.bytes.sum()),
        "duration_ps": int(algorithm.duration),
        # For people; whoever computes takes the picoseconds, which are exact.
        "duration_us": int(algorithm.duration) / 1e6,
        # What switches must do besides passing messages on.
        "needs": list(algorithm.needs),
        "each": [
            {
                "finish_ps": int(row.finish),
                "algbw": row.algorithm_bandwidth,
                "busbw": row.bus_bandwidth,
                "bound_ps": int(row.bound),
                "bound_cut_short": row.bound_cut_short,
                "relayed": row.relayed,
            }
            for row in each
        ],
        "method": provenance.method,
        "seed": provenance.seed,
        "seconds": round(provenance.seconds, 6),
        "version": provenance.version,
        "cut_short": provenance.cut_short,
        # None stays None: no bound is not a bound of zero.
        "bound_ps": bound and int(bound.value),
        "bound_kind": bound and bound.kind,
        "bound_cut_short": bound and bound.cut_short,
        "gap": algorithm.gap,
    }


def print_each_collective(rows: Sequence[CollectiveRow]) -> None:
    """Say when each of several collectives is done; those that are alike, and done at the same time, in one line."""
    if not rows:
        return
    alike = Counter(
        (
            f"{row.collective.kind} of {row.collective.size}",
            microseconds(row.finish, 2),
            f"{row.algorithm_bandwidth / 1e9:,.2f}",
            f"{row.bus_bandwidth / 1e9:,.2f}",
            microseconds(row.bound, 2) + (" (cut short)" if row.bound_cut_short else ""),
            f"{row.relayed:,}",
        )
        for row in rows
    )
    table = [(f"{count} x {what}", *rest) for (what, *rest), count in alike.items()]
    click.echo()
    columns = ("collective", ">done us", ">algbw GB/s", ">busbw GB/s", ">bound us", ">relayed")
    print_table(columns, table, len(table))


def each_of(algorithm: Algorithm) -> tuple[CollectiveRow, ...]:
    """What becomes of each collective, where there are several; bounds are proven for it, which may take long."""
    from pccl.analysis import each_collective

    return each_collective(algorithm) if len(algorithm.collectives) > 1 else ()


def _by_time(algorithm: Algorithm, count: int) -> Iterator[dict[str, Any]]:
    """The first transfers by start, as JSON has them."""
    import numpy as np

    t = algorithm.transfers
    # By start; those that start together have the order of their links, always the same.
    order = np.lexsort((t.link, t.start))[:count]
    collective = algorithm.conditions.collective[t.chunk]
    columns: Any = (
        t.start, t.arrival, t.chunk, collective, t.src, t.dst, t.link, t.bytes, t.reduce,
    )  # fmt: skip
    return rows_of(_COLUMNS, (column[order] for column in columns))


def _row(algorithm: Algorithm, row: dict[str, Any]) -> Iterable[object]:
    """A transfer as people read it."""
    device_text = algorithm.topology.device_text
    number = row["collective"]
    kind = algorithm.collectives[number].kind
    shown = {
        "start_ps": microseconds(row["start_ps"]),
        "arrival_ps": microseconds(row["arrival_ps"]),
        # A kind is not enough to tell several collectives apart.
        "collective": kind if len(algorithm.collectives) == 1 else f"{number} {kind}",
        "src": device_text(row["src"]),
        "dst": device_text(row["dst"]),
        "reduce": "adds" if row["reduce"] else "keeps",
    }
    return (row | shown).values()


@command("pccl verify a2a.pccl", "pccl verify *.pccl --json")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@json_option
@quiet_option
def verify(files: tuple[Path, ...], as_json: bool, quiet: bool) -> int:
    """Check .pccl files from scratch: every rule of the network, every promise of the collectives.

    Checked are: every transfer uses an existing link while it is free; the sender has what it sends when it sends it;
    sums count every contribution once; switches keep to their limits; every destination ends with what it was promised.

    The exit code is 1 if a file breaks a rule, 2 if one cannot be read.
    """
    worst = 0
    # One wrong file does not keep the others from being checked.
    results = []
    for file in files:
        # Wrong until shown otherwise, and filled with whatever is known before it fails.
        result: dict[str, Any] = {"file": str(file), "correct": False}
        results.append(result)
        try:
            text = _check(file, result)
            if not (quiet or as_json):
                print_line(f"{file}: correct: {text}")
        except PcclError as error:
            # Only what has been read can break a rule; other errors name the file themselves.
            is_wrong = isinstance(error, VerificationError)
            worst = max(worst, 1 if is_wrong else 2)
            result["error"] = f"{file}: {error}" if is_wrong else str(error)
            print_error(result["error"])
    if as_json:
        print_json({"files": results})
    return worst


def _check(file: Path, result: dict[str, Any]) -> str:
    """Add what is found in the file to its result, and return that in words if it is correct; otherwise raise."""
    from pccl.algorithm import load
    from pccl.algorithm import verify as check
    from pccl.algorithm.core import needs_text

    algorithm = load(file)
    kinds = [collective.kind for collective in algorithm.collectives]
    result |= {
        "topology": algorithm.topology.name,
        "collectives": kinds,
        "chunks": len(algorithm.conditions),
        "transfers": len(algorithm.transfers),
    }
    # From here on it is correct; what is above is said of wrong algorithms too.
    check(algorithm)
    duration = int(algorithm.duration)
    result |= {"correct": True, "duration_ps": duration, "needs": list(algorithm.needs)}
    tasks = " and ".join(
        kind if number == 1 else f"{number} x {kind}" for kind, number in Counter(kinds).items()
    )
    transfers = counted(result["transfers"], "transfer")
    chunks = counted(result["chunks"], "chunk")
    work = f"{transfers} deliver {chunks} in {algorithm.duration_text}"
    needs = needs_text(algorithm.needs)
    return f"{tasks} on {algorithm.topology.name}; {work}" + (f"; needs {needs}" if needs else "")
