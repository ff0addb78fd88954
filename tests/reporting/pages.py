"""Pages that several tests look at, made once per process."""

from __future__ import annotations

import atexit
import base64
import json
import re
import shutil
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import pccl

HOSTILE = "</script><img src=x onerror=document.title='broken'>\"'&"


@cache
def two_groups() -> pccl.Algorithm:
    """An All-to-All in the first row of a mesh, and an All-Reduce in the last."""
    first = pccl.AllToAll("8MiB", group=range(8), chunks=4)
    last = pccl.AllReduce("8MiB", group=range(56, 64), chunks=4)
    return pccl.synthesize(pccl.topology.mesh(8, 8), first, last, effort="fast")


@cache
def hostile() -> pccl.Algorithm:
    """A network with a name, and devices with names, that try to be HTML."""
    pair = [pccl.Link(0, 1, "50GB/s", "500ns"), pccl.Link(1, 0, "50GB/s", "500ns")]
    topology = pccl.Topology.from_links([HOSTILE, "b"], pair, name=HOSTILE)
    return pccl.synthesize(topology, pccl.AllGather("2MiB", chunks=1))


@cache
def relayed() -> pccl.Algorithm:
    """A group in which chunks go through NPUs that take no part."""
    corners = pccl.AllToAll("4MiB", group=(0, 2, 6, 8), chunks=1)
    return pccl.synthesize(pccl.topology.mesh(3, 3), corners, effort="fast")


@cache
def unequal() -> pccl.Algorithm:
    """Shares of different sizes."""
    matrix = [[0, 1024, 2048], [4096, 0, 1024], [1024, 1024, 0]]
    return pccl.synthesize(pccl.topology.ring(3), pccl.AllToAllV(matrix=matrix), effort="fast")


@cache
def million() -> pccl.Algorithm:
    """A million transfers over the links of a thousand NPUs: they make no sense, but there are very many."""
    topology = pccl.topology.mesh(10, 10, 10)
    rng = np.random.default_rng(0)
    link = rng.integers(0, topology.num_links, 1_000_000)
    chunk = np.repeat(rng.permutation(999_000)[:200_000], 5)
    start = rng.integers(0, 10**9, len(link))
    return pccl.Algorithm.build(topology, [pccl.AllToAll("1000KiB", chunks=1)], chunk, link, start)


@cache
def idle() -> pccl.Algorithm:
    """An NPU alone, with nothing to do."""
    alone = pccl.Topology.from_links(1, [])
    return pccl.Algorithm.build(alone, [pccl.AllGather("1kB", chunks=1)], [], [], [])


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pccl-pages-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def page(name: str) -> Path:
    """The page about one of the algorithms above."""
    path = _folder() / f"{name}.html"
    quick: dict[str, Any] = (
        {"verify": False, "bound": False, "baselines": False} if name in ("million", "idle") else {}
    )
    pccl.report(globals()[name](), path, source=f"{name}.pccl", **quick)
    return path


def contents(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the scripts of a page work with: the document, and the columns."""
    text = path.read_text(encoding="utf-8")
    document = json.loads(_script(text, "document"))
    return document, unpack(document["columns"], _script(text, "packed"))


def unpack(directory: list[list[Any]], text: str) -> dict[str, np.ndarray]:
    """What ``pack`` has packed, flat."""
    data = zlib.decompress(base64.b64decode(text))
    columns = {}
    begin = 0
    for name, short, length in directory:
        dtype = np.dtype(f"<{short}")
        part = np.frombuffer(data, np.uint8, length * dtype.itemsize, begin)
        values = np.ascontiguousarray(part.reshape(dtype.itemsize, length).T)
        columns[name] = values.view(dtype).reshape(-1)
        begin += part.size
    return columns


def _script(text: str, name: str) -> str:
    found = re.search(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', text, flags=re.DOTALL)
    assert found is not None
    return found[1]
