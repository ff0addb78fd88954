"""Which files can be read: one line a format, recognised by what is in the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pccl.errors import FormatError, TopologyError
from pccl.topology.core import Topology
from pccl.topology.documents import read_text
from pccl.topology.importers import (
    graphs,
    hardware,
    htsim,
    ibnetdiscover,
    nccl_graph,
    nccl_xml,
    nvidia_smi,
    own,
    rocm_smi,
    slurm,
    topograph,
)
from pccl.topology.importers.assembly import assemble
from pccl.topology.importers.model import MOST_CHARACTERS, Hints, Part, Source
from pccl.units import Bandwidth, BytesPerSecond, parse, whole

_MOST_BOXES = 10_000
# How much of a file tells its format.
_HEAD = 2**20


@dataclass(frozen=True)
class Importer:
    """A format: what it is called, how its files are recognised, and how they are read."""

    name: str
    recognises: Callable[[str], bool]
    read: Callable[[Source, Hints], Part]


# Asked in this order; the last one takes what no other knows.
IMPORTERS = (
    Importer("NCCL graph XML", nccl_graph.recognises, nccl_graph.read),
    Importer("GraphML", graphs.recognises_graphml, graphs.read_graphml),
    Importer("NCCL or RCCL topology XML", nccl_xml.recognises, nccl_xml.read),
    Importer("rocm-smi --showtopo", rocm_smi.recognises, rocm_smi.read),
    Importer("nvidia-smi topo -m", nvidia_smi.recognises, nvidia_smi.read),
    Importer("ibnetdiscover", ibnetdiscover.recognises, ibnetdiscover.read),
    Importer("SLURM topology.conf", slurm.recognises, slurm.read),
    Importer("SLURM topology.yaml", topograph.recognises_slurm, topograph.read_slurm),
    Importer("topograph model", topograph.recognises, topograph.read),
    Importer("htsim .topo", htsim.recognises, htsim.read),
    Importer("GML", graphs.recognises_gml, graphs.read_gml),
    Importer("topology file", own.recognises, own.read),
)


@dataclass(frozen=True)
class Reading:
    """A topology, and what is known of it: the formats it was read from, what was found in them, what was assumed."""

    topology: Topology
    formats: tuple[str, ...]
    found: tuple[str, ...]
    assumed: tuple[str, ...]


def read(
    *paths: str | Path,
    gpu: str | None = None,
    nic: Bandwidth | None = None,
    boxes: int = 1,
) -> Reading:
    """Read a topology from files, and say what was found in them and what was assumed; see :func:`load`."""
    if not paths:
        raise TopologyError("there is no file to load")
    if whole(boxes) is None or not 1 <= boxes <= _MOST_BOXES:
        raise TopologyError(f"boxes is a whole number up to {_MOST_BOXES:,}, not {boxes!r}")
    model = None if gpu is None else hardware.gpu(gpu)
    speed = None if nic is None else int(parse(BytesPerSecond, nic, "nic"))
    if speed == 0:
        raise TopologyError("nic is a bandwidth, and must be positive")
    hints = Hints(model, speed, boxes)
    formats = []
    parts = []
    for path in (Path(path).expanduser() for path in paths):
        text = read_text(path, "a topology")
        if not text.strip():
            raise FormatError(f"{path}: the file is empty")
        if len(text) > MOST_CHARACTERS and path.suffix not in own.SUFFIXES:
            raise FormatError(
                f"{path} is too large for a topology: more than {MOST_CHARACTERS >> 20} MiB"
            )
        source = Source(path, text)
        importer = next(one for one in IMPORTERS if one.recognises(text[:_HEAD]))
        parts.append(importer.read(source, hints))
        formats.append(importer.name)
    name = " + ".join(Path(path).stem for path in paths)
    whole_part = _joined(parts, name, hints, gpu, nic)
    assert whole_part.topology is not None
    kinds = tuple(dict.fromkeys(formats))
    return Reading(whole_part.topology, kinds, tuple(whole_part.found), tuple(whole_part.assumed))


def load(
    *paths: str | Path,
    gpu: str | None = None,
    nic: Bandwidth | None = None,
    boxes: int = 1,
) -> Topology:
    r"""Load a topology from a file of any known format, or join what several say.

    Our own YAML and JSON, edge lists and ASTRA-sim networks; topology files of NCCL and RCCL, ``nvidia-smi topo -m``,
    ``rocm-smi --showtopo``, ``ibnetdiscover``, SLURM's ``topology.conf``, models of topograph, htsim, GraphML and GML.
    The file tells its format by what is in it.

    Parameters
    ----------
    *paths
        One file, or several: the dumps of boxes and the fabric between them, which are joined by the names of hosts and
        NICs. A dump that does not tell its host is called after its file.
    gpu
        The model of the GPUs, such as ``"h100"``, for files that do not tell.
    nic
        How fast a NIC is, such as ``"50GB/s"``, for files that do not tell.
    boxes
        How many boxes there are like the one in the file.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a100.txt"
    >>> _ = file.write_text("      GPU0 GPU1 CPU Affinity\nGPU0   X   NV12 0-15\nGPU1  NV12  X   0-15\n")
    >>> load(file)
    Topology('a100': 2 NPUs, 2 links, 300GB/s, 300ns)
    """
    return read(*paths, gpu=gpu, nic=nic, boxes=boxes).topology


def _joined(
    parts: Sequence[Part], name: str, hints: Hints, gpu: str | None, nic: Bandwidth | None
) -> Part:
    finished = [part for part in parts if part.topology is not None]
    if not finished:
        return assemble(parts, name, hints)
    if len(parts) > 1:
        raise FormatError(f"{name}: only dumps of boxes can be joined, and one fabric between them")
    given = [key for key, value in (("gpu", gpu), ("nic", nic)) if value is not None]
    given += ["boxes"] if hints.boxes > 1 else []
    if given:
        raise FormatError(f"{name} is a whole topology already; leave out {' and '.join(given)}")
    return finished[0]
