"""Figures of algorithms and topologies: what there is, checked before any work; drawing is left to the other modules.

figures_style     colours, paper and saving
figures_canvas    the network, for figures on it
figures_network   topology and heatmap
figures_time      utilization and timeline
figures_ten       ten
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pccl.errors import FormatError, PcclError

if TYPE_CHECKING:
    from pccl.algorithm import Algorithm
    from pccl.topology import Topology

__all__ = ["KINDS", "SUFFIXES", "Kind", "find_kind", "plot"]

SUFFIXES = (".svg", ".png", ".pdf")


@dataclass(frozen=True)
class Kind:
    """One kind of figure.

    Attributes
    ----------
    name, description
        What to ask for, and what it shows.
    target
        The function that draws it, as ``module:function``.
    options
        The keywords that it takes.
    of_topology
        Whether a topology is enough for it.
    """

    name: str
    description: str
    target: str
    options: tuple[str, ...] = ()
    of_topology: bool = False

    @property
    def draw(self) -> Callable[..., Any]:
        """The function that draws it."""
        module, _, function = self.target.partition(":")
        found: Callable[..., Any] = getattr(import_module(module), function)
        return found


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("heatmap", "how busy each link is, on the network", "pccl.reporting.figures_network:heatmap"),
        Kind("utilization", "the share of links that are busy, over time", "pccl.reporting.figures_time:utilization",
             ("against",)),
        Kind("timeline", "when each link is held, and by what", "pccl.reporting.figures_time:timeline", ("links",)),
        Kind("ten", "the time-expanded network and the ways of chunks, of small algorithms",
             "pccl.reporting.figures_ten:time_expanded_network"),
        Kind("topology", "the network and its process groups", "pccl.reporting.figures_network:topology",
             of_topology=True),
    )
}  # fmt: skip


def plot(subject: Algorithm | Topology, kind: str, path: str | Path, **options: Any) -> Path:
    """Draw a figure and write it to a file.

    Parameters
    ----------
    subject
        An algorithm; for the kind ``"topology"`` also a topology.
    kind
        ``"heatmap"``, ``"utilization"``, ``"timeline"``, ``"ten"`` or ``"topology"``.
    path
        A file that ends with ``.svg``, ``.png`` or ``.pdf``. The same subject always gives the same file.
    **options
        ``against=["direct", "ring"]`` for ``"utilization"``: baselines to set beside it. ``links=20`` for
        ``"timeline"``: how many links to show, of which the busiest are taken.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import pccl, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> plot(pccl.topology.mesh(2, 2), "topology", folder / "mesh.svg").name
    'mesh.svg'
    >>> plot(pccl.topology.mesh(2, 2), "heatmap", folder / "mesh.svg")
    Traceback (most recent call last):
        ...
    pccl.errors.PcclError: a heatmap needs an algorithm, not only a topology
    """
    from pccl.topology import Topology

    chosen = find_kind(kind, options)
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise FormatError(
            f"cannot write {file}: a figure is saved as {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
        )
    if isinstance(subject, Topology) and not chosen.of_topology:
        raise PcclError(f"a {kind} needs an algorithm, not only a topology")
    style = _style()
    with style.drawing():
        style.save(chosen.draw(subject, **options), file)
    return file


def find_kind(name: str, options: Iterable[str] = ()) -> Kind:
    """The kind of this name, which must take these options.

    Examples
    --------
    >>> find_kind("pie")
    Traceback (most recent call last):
        ...
    pccl.errors.PcclError: there is no figure 'pie'; there are heatmap, utilization, timeline, ten, topology
    """
    if name not in KINDS:
        raise PcclError(f"there is no figure {name!r}; there are {', '.join(KINDS)}")
    for option in options:
        if option not in KINDS[name].options:
            with_it = ", ".join(kind.name for kind in KINDS.values() if option in kind.options)
            where = f"it goes with {with_it}" if with_it else "no figure has it"
            raise PcclError(f"the figure {name} has no option {option!r}; {where}")
    return KINDS[name]


def _style() -> Any:
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise PcclError("matplotlib is not installed: pip install pccl[figures]") from error
    from pccl.reporting import figures_style

    return figures_style
