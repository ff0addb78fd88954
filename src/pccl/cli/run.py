"""``pccl run``: a plan on real ranks, with every element checked and the time measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import microseconds, print_error, print_json, print_table
from pccl.cli.options import RUNS, SECONDS, command, file_argument, json_option, option
from pccl.runtime.registry import PLACES

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.runtime.measure import Job, Report

_COLUMNS = (
    "collective", ">size B", ">count", "type", "redop", ">planned us", ">messages us", ">time us",
    ">algbw GB/s", ">busbw GB/s", ">#wrong",
)  # fmt: skip
_MESSAGES = _COLUMNS.index(">messages us")


@command(
    "pccl run ag.pccl",
    "pccl run ag.pccl --on torch --size 1MiB --size 16MiB",
    "torchrun --nproc-per-node 8 -m pccl.cli run ag.pccl --on torch",
    then="Exit code 1 if any element is wrong.",
)
@file_argument
@click.option(
    "--on",
    type=click.Choice(list(PLACES)),
    default="processes",
    show_default=True,
    help=f"What runs it: {'; '.join(f'{place.name}, {place.about}' for place in PLACES.values())}.",
)
@option(
    "-s --size TEXT",
    "Size of the buffer, such as 1MiB, of the first collective; others keep their ratio to it. Repeatable. Default: "
    "that of the plan, or a smaller one if its data would take more than 1 GiB or a quarter of the free memory.",
    multiple=True,
)
@option(
    "--dtype NAME",
    "Type of the elements. Default: that of the plan; float32 if it has bytes, and so many of them.",
)
@option("--op NAME", "What sums are: sum, prod, max, min or avg. Default: sum.", default="sum")
@option("--in-place", "Input and output in one buffer, where the collective has such a form.")
@option("--iterations N", "Runs to measure. Default: 5.", type=RUNS, default=5)
@option("--seed N", "Which numbers are sent. Default: 0.", type=click.IntRange(0), default=0)
@option(
    "--timeout SECONDS",
    "For how long a rank waits for another. Default: 60.",
    type=SECONDS,
    default=60.0,
)
@json_option
def run(
    file: Path, on: str, size: Sequence[str], dtype: str | None, as_json: bool, **options: Any
) -> int:
    """Run a plan on ranks of this machine, or as a rank of a job; check every element, and measure.

    Ranks send messages to one another. Where these should not take as long as planned, as switches would have to
    multiply or add, the time that they should take stands beside the planned one.
    """
    from pccl.algorithm import load
    from pccl.algorithm.core import needs_text
    from pccl.runtime.measure import Job

    algorithm = load(file)
    name = dtype or _dtype_of(algorithm, size)
    plain = name.removeprefix("torch.")
    sizes = _sizes(algorithm, size, plain, launched=PLACES[on].is_launched)
    elements = tuple(_elements(algorithm, sizes, plain))
    job = Job(elements, dtype=plain, **options)
    report = PLACES[on].run(algorithm, job)
    wrong = sum(sum(outcome.wrong) for outcome in report.outcomes)
    if report.speaks:
        rows = list(_rows(algorithm, job, report))
        if as_json:
            needs = list(algorithm.needs)
            print_json({"file": str(file), "on": on, "needs": needs, "runs": rows})
        else:
            _print(rows)
            if algorithm.needs:
                click.echo(f"to be as planned, it needs {needs_text(algorithm.needs)}")
    return 1 if wrong else 0


def _dtype_of(algorithm: Algorithm, sizes: Sequence[str]) -> str:
    """That of the plan; bytes that make up whole numbers of four may be any type of that width."""
    from pccl.units import Bytes, parse

    planned = algorithm.collectives[0].dtype
    first = [int(parse(Bytes, text, "--size")) for text in sizes]
    given = first or [int(one.size) for one in algorithm.collectives]
    is_whole = all(size % 4 == 0 for size in given)
    return "float32" if planned == "uint8" and is_whole else planned


def _sizes(algorithm: Algorithm, given: Sequence[str], dtype: str, *, launched: bool) -> list[int]:
    """The sizes to run, for which there is memory; nobody but a launcher knows how many ranks a machine has."""
    from pccl.collective.base import ELEMENT_BYTES
    from pccl.runtime.memory import check_fits, data_bytes, size_unasked
    from pccl.units import Bytes, parse, size_text

    sizes = [int(parse(Bytes, text, "--size")) for text in given]
    planned = int(algorithm.collectives[0].size)
    # What is no type at all is refused where the job is made, with the names that there are.
    if launched or dtype not in ELEMENT_BYTES:
        return sizes or [planned]
    for size in sizes:
        check_fits(algorithm, dtype, size)
    if sizes:
        return sizes
    size = size_unasked(algorithm, dtype)
    if size != planned:
        needed = size_text(data_bytes(algorithm, dtype))
        print_error(
            f"run with {Bytes(size)}, since at the {Bytes(planned)} of the plan the data of all ranks take about "
            f"{needed} of memory; --size takes another",
            prefix="note: ",
        )
    return [size]


def _elements(algorithm: Algorithm, sizes: Sequence[int], dtype: str) -> Iterator[tuple[int, ...]]:
    """How many elements every collective has, for each of the sizes."""
    from pccl.collective.base import ELEMENT_BYTES

    planned = [int(collective.size) for collective in algorithm.collectives]
    # What has no width is refused where the job is made, with the names that there are.
    width = ELEMENT_BYTES.get(dtype, 1)
    for size in sizes:
        yield tuple(size * each // (max(planned[0], 1) * width) for each in planned)


def _rows(algorithm: Algorithm, job: Job, report: Report) -> Iterator[dict[str, Any]]:
    from pccl.analysis.sizes import played_at
    from pccl.collective.base import ELEMENT_BYTES
    from pccl.formats.lowering import lowered_time

    width = ELEMENT_BYTES[job.dtype]
    npus = algorithm.topology.npus
    for elements, outcome in zip(job.elements, report.outcomes, strict=True):
        sizes = [count * width for count in elements]
        played = played_at(algorithm, *sizes, element=width)
        planned = int(played.duration)
        messages = int(lowered_time(played))
        for collective, count, wrong in zip(
            algorithm.collectives, elements, outcome.wrong, strict=True
        ):
            size = count * width
            bandwidth = size / outcome.seconds if outcome.seconds else 0.0
            yield {
                "collective": collective.kind,
                "size": size,
                "count": count,
                "type": job.dtype,
                "redop": job.op if collective.collects else "none",
                "planned_ps": planned,
                "messages_ps": messages,
                "time_us": round(outcome.seconds * 1e6, 3),
                "algbw": bandwidth,
                "busbw": bandwidth * collective.bus_factor(len(collective.members(npus))),
                "wrong": wrong,
            }


def _print(rows: Sequence[dict[str, Any]]) -> None:
    """One line for those that are alike, as all groups of a mesh are."""
    from pccl.formats.runtime_files import differ

    alike = Counter(
        (
            row["collective"],
            f"{row['size']:,}",
            f"{row['count']:,}",
            row["type"],
            row["redop"],
            microseconds(row["planned_ps"], 2),
            microseconds(row["messages_ps"], 2),
            f"{row['time_us']:,.2f}",
            f"{row['algbw'] / 1e9:,.3f}",
            f"{row['busbw'] / 1e9:,.3f}",
            f"{row['wrong']:,}",
        )
        for row in rows
    )
    table = [
        (f"{count} x {kind}" if count > 1 else kind, *rest)
        for (kind, *rest), count in alike.items()
    ]
    shown = list(range(len(_COLUMNS)))
    # Twice the same would take room for nothing.
    if not any(differ(row["planned_ps"], row["messages_ps"]) for row in rows):
        shown.remove(_MESSAGES)
    lines = [[line[i] for i in shown] for line in table]
    print_table([_COLUMNS[i] for i in shown], lines, len(lines))
