"""``plot`` and the kinds of figures. What is asked for is checked before any work; drawing is left to other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pccl._lazy import load_target
from pccl.errors import FormatError, PcclError
from pccl.formats.format import Option

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.topology import Topology

SUFFIXES = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class FigureKind:
    """One kind of figure.

    Attributes
    ----------
    name, description
        What to ask for, and what it shows.
    target
        The function that draws it, as ``module:function`` of this package: it takes the subject, and the options as
        keywords, and returns a figure of matplotlib.
    options
        The keywords that it takes.
    of_topology
        Whether a topology is enough for it.
    searches
        Whether it takes long, and a function to tell how far it is.
    """

    name: str
    description: str
    target: str
    options: tuple[Option, ...] = ()
    of_topology: bool = False
    searches: bool = False


# Options are those of formats, so that the command line makes flags of them in the same way.
_AGAINST = Option("against", "text", "Baselines to set beside it: direct,ring.")
_SIZES = Option("sizes", "text", "From which size to which. Default: 1KiB:1GiB.")
_EFFORT = Option(
    "effort",
    "choice",
    "How much to try at each size. Default: balanced.",
    choices=("balanced", "fast", "thorough"),
)
_LINKS = Option("links", "count", "How many links, the busiest of each kind. Default: 40.")

FIGURES: dict[str, FigureKind] = {
    kind.name: kind
    for kind in (
        FigureKind("heatmap", "how busy each link is, on the network", "network:heatmap"),
        FigureKind(
            "utilization", "the share of links that are busy, over time", "time:utilization", (_AGAINST,)
        ),
        FigureKind("timeline", "when each link is held, and by what", "time:timeline", (_LINKS,)),
        FigureKind(
            "gantt", "when each collective is under way and done, beside its bound", "gantt:collectives"
        ),
        FigureKind("critical", "the transfers of which each waits for another", "gantt:critical_path"),
        FigureKind(
            "ten", "the time-expanded network and the ways of chunks, of small algorithms", "ten:draw"
        ),
        FigureKind(
            "sizes", "time and bus bandwidth over sizes, beside NCCL and the bound", "sizes:draw",
            (_SIZES, _AGAINST, _EFFORT), searches=True,
        ),
        FigureKind("topology", "the network and its process groups", "network:topology", of_topology=True),
    )
}  # fmt: skip


def plot(
    subject: Algorithm | Topology,
    kind: str,
    path: str | Path,
    *,
    progress: Callable[[int, int, str], None] | None = None,
    **options: Any,
) -> Path:
    """Draw a figure and write it to a file.

    Parameters
    ----------
    subject
        An algorithm; for the kind ``"topology"`` also a topology.
    kind
        ``"heatmap"``, ``"utilization"``, ``"timeline"``, ``"gantt"``, ``"critical"``, ``"ten"``, ``"sizes"`` or
        ``"topology"``.
    path
        A file that ends with ``.svg``, ``.png`` or ``.pdf``. The same subject always gives the same file.
    progress
        For ``"sizes"``, which searches for an algorithm at each: called with (sizes done, sizes in all, what is going
        on).
    **options
        ``against=["direct", "ring"]`` for ``"utilization"`` and ``"sizes"``: baselines to set beside it. ``links=20``
        for ``"timeline"``: how many links to show, of which the busiest are taken. ``sizes="1MiB:1GiB"`` and
        ``effort="fast"`` for ``"sizes"``: from which size to which, and how much to try.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import pccl, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> pccl.plot(pccl.topology.mesh(2, 2), "topology", folder / "mesh.svg").name
    'mesh.svg'
    >>> pccl.plot(pccl.topology.mesh(2, 2), "heatmap", folder / "mesh.svg")
    Traceback (most recent call last):
        ...
    pccl.errors.PcclError: a heatmap needs an algorithm, not only a topology
    """
    from pccl.algorithm.core import check_algorithm
    from pccl.topology import Topology

    # Everything that can be wrong is asked before matplotlib is imported, which takes a second.
    figure = find_figure(kind, options)
    file = Path(path)
    if file.suffix not in SUFFIXES:
        endings = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        raise FormatError(f"cannot write {file}: a figure is saved as {endings}")
    if not isinstance(subject, Topology):
        check_algorithm(subject, "a figure shows")
    elif not figure.of_topology:
        raise PcclError(f"a {kind} needs an algorithm, not only a topology")
    try:
        # Only to see whether it is there: it is an optional dependency.
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise PcclError("matplotlib is not installed: pip install matplotlib") from error
    from pccl.reporting.figures import style

    draw = load_target(f"pccl.reporting.figures.{figure.target}")
    # Saving too: some settings count only when the file is written.
    if figure.searches:
        options["progress"] = progress
    with style.own_settings(file.suffix):
        style.save(draw(subject, **options), file)
    return file


def find_figure(name: str, options: Iterable[str] = ()) -> FigureKind:
    """Return the kind of this name, which must take these options.

    Examples
    --------
    >>> find_figure("heatmap").description
    'how busy each link is, on the network'
    """
    if name not in FIGURES:
        raise PcclError(f"there is no figure {name!r}; there are {', '.join(FIGURES)}")
    for option in options:
        # An option of another figure is a slip that can be named; any other is unknown.
        users = [
            figure.name
            for figure in FIGURES.values()
            if option in [known.name for known in figure.options]
        ]
        if name not in users:
            where = f"it goes with {', '.join(users)}" if users else "no figure has it"
            raise PcclError(f"the figure {name} has no option {option!r}; {where}")
    return FIGURES[name]
