"""``pccl show`` and ``pccl verify``: what is in .pccl files, and whether they are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import counted, print_error, print_facts, print_json, print_line, print_table
from pccl.cli.options import FILE, command, file_argument, json_option, quiet_option
from pccl.errors import PcclError, VerificationError

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm

# Transfers that are shown without being asked for.
_FEW = 60
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


@command(
    "pccl show a2a.pccl",
    "pccl show a2a.pccl --transfers --limit 20",
    "pccl show a2a.pccl --transfers --json",
)
@file_argument
@click.option(
    "--transfers", is_flag=True, help=f"Print the transfers even if there are more than {_FEW}."
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(0), help="Print at most this many transfers."
)
@json_option
def show(file: Path, transfers: bool, limit: int | None, as_json: bool) -> None:
    """Summarize a .pccl file, and list its transfers in the order of time if they are few."""
    from pccl.algorithm import load

    algorithm = load(file)
    count = len(algorithm.transfers)
    is_asked = transfers or limit is not None
    most = count if limit is None else limit
    if as_json:
        document = describe(algorithm, file)
        if is_asked and min(count, most):
            document["first_transfers"] = list(_by_time(algorithm, most))
        print_json(document)
        return
    print_facts({"file": str(file)} | algorithm.facts())
    shown = min(count, most) if is_asked or count <= _FEW else 0
    if shown:
        click.echo()
        print_table(_COLUMNS, _rows(algorithm, shown), shown)
    if shown < count:
        which = "further transfers" if shown else "transfers"
        click.echo(
            f"\n{count - shown:,} {which} are not shown; --transfers shows all, --limit N some"
        )


def describe(algorithm: Algorithm, file: Path | None) -> dict[str, Any]:
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
        "duration_us": int(algorithm.duration) / 1e6,
        "method": provenance.method,
        "seed": provenance.seed,
        "seconds": round(provenance.seconds, 6),
        "version": provenance.version,
        "bound_ps": bound and int(bound.value),
        "bound_kind": bound and bound.kind,
        "gap": algorithm.gap,
    }


def _rows(algorithm: Algorithm, count: int) -> Iterator[tuple[object, ...]]:
    """The first transfers by start, as people read them."""
    topology = algorithm.topology
    for row in _by_time(algorithm, count):
        collective = algorithm.collectives[row["collective"]].kind
        if len(algorithm.collectives) > 1:
            collective = f"{row['collective']} {collective}"
        yield (
            f"{row['start_ps'] / 1e6:,.3f}",
            f"{row['arrival_ps'] / 1e6:,.3f}",
            row["chunk"],
            collective,
            topology.device_text(row["src"]),
            topology.device_text(row["dst"]),
            row["link"],
            row["bytes"],
            "adds" if row["reduce"] else "keeps",
        )


def _by_time(algorithm: Algorithm, count: int) -> Iterator[dict[str, Any]]:
    import numpy as np

    t = algorithm.transfers
    order = np.lexsort((t.link, t.start))[:count]
    columns: dict[str, Any] = {
        "start_ps": t.start,
        "arrival_ps": t.arrival,
        "chunk": t.chunk,
        "collective": algorithm.conditions.collective[t.chunk],
        "src": t.src,
        "dst": t.dst,
        "link": t.link,
        "bytes": t.bytes,
        "reduce": t.reduce,
    }
    for values in zip(*(column[order].tolist() for column in columns.values()), strict=True):
        yield dict(zip(columns, values, strict=True))


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
    results = []
    for file in files:
        result: dict[str, Any] = {"file": str(file), "correct": False}
        results.append(result)
        try:
            text = _check(file, result)
            if not (quiet or as_json):
                print_line(f"{file}: correct: {text}")
            continue
        except VerificationError as error:
            status = 1
            problem = f"{file}: {error}"
        except PcclError as error:
            status = 2
            problem = str(error)
        worst = max(worst, status)
        result["error"] = problem
        print_error(problem)
    if as_json:
        print_json({"files": results})
    return worst


def _check(file: Path, result: dict[str, Any]) -> str:
    """Add what is found in the file to its result, and return that in words if it is correct; otherwise raise."""
    from pccl.algorithm import load
    from pccl.algorithm import verify as check

    algorithm = load(file)
    kinds = [collective.kind for collective in algorithm.collectives]
    result["topology"] = algorithm.topology.name
    result["collectives"] = kinds
    result["chunks"] = len(algorithm.conditions)
    result["transfers"] = len(algorithm.transfers)
    check(algorithm)
    result["correct"] = True
    result["duration_ps"] = int(algorithm.duration)
    tasks = " and ".join(
        kind if number == 1 else f"{number} x {kind}" for kind, number in Counter(kinds).items()
    )
    transfers = counted(len(algorithm.transfers), "transfer")
    chunks = counted(len(algorithm.conditions), "chunk")
    work = f"{transfers} deliver {chunks} in {algorithm.duration_text}"
    return f"{tasks} on {algorithm.topology.name}; {work}"
