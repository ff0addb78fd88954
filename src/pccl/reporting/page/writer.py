"""``report``: everything about an algorithm in one page that opens anywhere, also without a network.

findings   the bound, and the baselines that run in reasonable time
html_traffic    how busy links are over time, and a sample of chunks
html_data       what the scripts of the page work with; html_columns packs it
html_text       the parts of the page that are text and tables
assets/         the page itself, its style and its scripts
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from pccl._files import replacing
from pccl._version import __version__
from pccl.algorithm import Algorithm
from pccl.algorithm import verify as check
from pccl.errors import FormatError, PcclError
from pccl.reporting.layouts.drawing import arrange
from pccl.reporting.page import text
from pccl.reporting.page.columns import pack
from pccl.reporting.page.data import busy_time, columns, document
from pccl.reporting.page.findings import Findings, Report, find, late_chunks, worst_links
from pccl.reporting.page.traffic import Load, Sample, load_over_time, sample

__all__ = ["report"]

SCRIPTS = ("data.js", "network.js", "charts.js", "page.js")
_LISTED = 20  # worst links and latest chunks


def report(
    algorithm: Algorithm,
    path: str | Path,
    *,
    baselines: bool | Sequence[str] = True,
    bound: bool = True,
    verify: bool = True,
    source: str | Path | None = None,
    progress: Report | None = None,
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
    if not isinstance(algorithm, Algorithm):
        raise PcclError(
            f"a report is about an algorithm, not {algorithm!r}; pccl.load reads one from a file"
        )
    if isinstance(baselines, str):
        raise PcclError(
            f"baselines must be a list of names, such as [{baselines!r}], or True or False"
        )
    if not Path(path).parent.is_dir():
        raise FormatError(f"cannot write {path}: there is no folder {Path(path).parent}")
    if verify:
        check(algorithm)
    wanted = None if baselines is True else list(baselines or ())
    findings = find(algorithm, wanted, bound=bound, progress=progress)
    load, shown = load_over_time(algorithm), sample(algorithm)
    page = _page(findings, load, shown, verify, None if source is None else str(source)).encode()
    with replacing(path) as file:
        file.write(page)
    return _facts(findings, shown, len(page))


def _page(findings: Findings, load: Load, shown: Sample, verified: bool, source: str | None) -> str:
    algorithm = findings.algorithm
    drawing = arrange(algorithm.topology)
    directory, packed = pack(columns(algorithm, drawing, load, shown))
    data = document(algorithm, drawing, load, shown) | {"columns": directory}
    links = text.numbered_table(
        "The busiest links", "link", ("From", "To", "Busy", "Bandwidth", "Latency"),
        worst_links(algorithm, busy_time(algorithm), _LISTED), numeric=(2, 3, 4),
    )  # fmt: skip
    chunks = text.numbered_table(
        "The chunks that are done last", "chunk", ("Collective", "From", "To", "Transfers", "Done"),
        late_chunks(algorithm, _LISTED), numeric=(3, 4),
    )  # fmt: skip
    return Template(_asset("page.html")).substitute(
        title=escape(text.title(algorithm)),
        version=__version__,
        style=_asset("style.css"),
        asked=text.asked(algorithm),
        found=text.found(findings, load),
        rivals=text.rivals(findings),
        left_out=text.left_out(findings),
        usage=text.usage_table(algorithm, load.curve),
        links=links,
        chunks=chunks,
        commands=text.commands(source),
        notes=text.notes(algorithm, load, shown, verified),
        document=_json(data),
        packed=packed,
        script="\n".join(_asset(name) for name in SCRIPTS),
    )


def _facts(findings: Findings, shown: Sample, size: int) -> dict[str, str]:
    ran = [rival.name for rival in findings.rivals if rival.time is not None]
    everything = len(shown.transfers) == len(findings.algorithm.transfers)
    return {
        "baselines": ", ".join(ran) or "none",
        "chunks shown": "all"
        if everything
        else f"{len(shown.chunks):,} of {len(findings.algorithm.conditions):,}",
        "page": f"{size / 1e6:.2f} MB",
    }


def _json(data: Any) -> str:
    """JSON that no text inside can end early."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (files("pccl.reporting.page") / "assets" / name).read_text(encoding="utf-8")
