"""``report``: everything about an algorithm in one page that opens anywhere, also without a network."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

from pccl._files import replacing
from pccl._version import __version__
from pccl.algorithm import Algorithm
from pccl.algorithm import verify as check
from pccl.algorithm.core import check_algorithm
from pccl.analysis import Comparison, compare
from pccl.errors import FormatError, PcclError
from pccl.reporting.layouts import arrange
from pccl.reporting.page import content
from pccl.reporting.page.commands import MOST_TO_TRY, commands
from pccl.reporting.page.data import Sample, load_over_time, pack, page_data, sample

SCRIPTS = ("data.js", "network.js", "charts.js", "page.js")


def report(
    algorithm: Algorithm,
    path: str | Path,
    *,
    baselines: bool | Sequence[str] = True,
    bound: bool = True,
    verify: bool = True,
    source: str | Path | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> Mapping[str, str]:
    """Write a page about an algorithm: what was asked and found, and what happens on every link over time.

    Parameters
    ----------
    algorithm
        Any algorithm, ours or not.
    path
        The file to write, ``report.html`` for example. It needs no other file, and no network to be opened.
    baselines
        Which baselines to set beside it: by name, all that take little time, or ``False`` for none.
    bound
        Whether to prove a lower bound.
    verify
        Whether to have the verifier check the algorithm first; a wrong one is an error.
    source
        The ``.pccl`` file of the algorithm, for the commands that the page shows.
    progress
        Called with (done, of how much, what is going on).

    Returns
    -------
    Mapping
        What has been written, by name, for people.

    Examples
    --------
    >>> import pccl, tempfile
    >>> algorithm = pccl.synthesize(pccl.topology.mesh(3, 3), pccl.AllGather(size="9MiB", chunks=1))
    >>> page = Path(tempfile.mkdtemp()) / "report.html"
    >>> pccl.report(algorithm, page, baselines=["ring"])["baselines"]
    'ring'
    """
    check_algorithm(algorithm, "a report is about")
    # A text is a sequence of names of one letter each, which is never meant.
    if isinstance(baselines, str):
        raise PcclError(
            f"baselines must be a list of names, such as [{baselines!r}], or True or False"
        )
    # Before baselines run, which may take a minute.
    if not Path(path).parent.is_dir():
        raise FormatError(f"cannot write {path}: there is no folder {Path(path).parent}")
    if verify:
        check(algorithm)
    wanted = None if baselines is True else list(baselines or ())
    comparison = compare(algorithm, wanted, bound=bound, quick=True, progress=progress)
    if wanted is not None:
        # What was named must run; of all that there are, some never fit.
        for row in comparison.left_out:
            raise PcclError(f"the baseline {row.name!r}: {row.reason}")
    shown = sample(algorithm)
    # Whole in memory, and then written whole or not at all.
    page = _page(comparison, shown, verify, source).encode()
    with replacing(path) as file:
        file.write(page)
    ran = [row.name for row in comparison.baselines if row.duration is not None]
    part = f"{len(shown.chunks):,} of {len(algorithm.conditions):,}"
    return {
        "baselines": ", ".join(ran) or "none",
        "chunks shown": "all" if shown.complete else part,
        "page": f"{len(page) / 1e6:.2f} MB",
    }


def _page(comparison: Comparison, shown: Sample, verified: bool, source: str | Path | None) -> str:
    algorithm = comparison.algorithm
    load = load_over_time(algorithm)
    document, columns = page_data(algorithm, arrange(algorithm.topology), load, shown)
    document["columns"], packed = pack(columns)
    offered = commands(algorithm, source)
    # Written such that no text inside can end it early.
    written = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return Template(_asset("page.html")).substitute(
        title=escape(content.title(algorithm)),
        version=__version__,
        style=_asset("style.css"),
        asked=content.asked(algorithm),
        found=content.found(comparison),
        rivals=content.rivals(comparison),
        left_out=content.left_out(comparison),
        gantt=content.gantt(algorithm),
        usage=content.usage(algorithm, load.curve),
        links=content.busiest_links(algorithm),
        chunks=content.last_chunks(algorithm),
        commands=content.command_list(offered.listed) + content.refusals(offered.refused),
        most_to_try=f"{MOST_TO_TRY:,}",
        notes=content.notes(algorithm, load, shown, verified),
        document=written.replace("<", "\\u003c"),
        packed=packed,
        script="\n".join(_asset(name) for name in SCRIPTS),
    )


def _asset(name: str) -> str:
    return (files("pccl.reporting.page") / "assets" / name).read_text(encoding="utf-8")
