"""``pccl topology``: the zoo of networks, and one of them described."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import check_writable, examples, print_facts, print_json, print_table

if TYPE_CHECKING:
    from pccl.topology import Topology

__all__ = ["topology"]

_FEW_DEVICES, _FEW_LINKS = 24, 48
_CHEAP = 2_048  # devices up to which the diameter takes no noticeable time
_SUFFIXES = (".yaml", ".yml", ".json")


@click.command(
    short_help="List the networks that have a name, or describe one.",
    epilog=examples(
        "pccl topology",
        "pccl topology mesh:8x8",
        "pccl topology torus:4x4x4@50GB/s,500ns",
        "pccl topology ring:4@25GB/s x fully-connected:8@100GB/s",
        "pccl topology h100:2 --save h100.yaml",
    ),
)
@click.argument("text", nargs=-1)
@click.option(
    "--save",
    metavar="FILE",
    type=click.Path(readable=False, path_type=Path),
    help="Write the network to .yaml or .json.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def topology(text: tuple[str, ...], save: Path | None, as_json: bool) -> None:
    """Describe the network that TEXT stands for; without TEXT, list the networks that have a name.

    TEXT is name:AxBxC, then flags after commas, then '@bandwidth,latency'; or a file; 'A x B' is a product. All of it
    is explained in docs/topologies.md.
    """
    if not text:
        if save is not None:
            raise click.UsageError("--save needs the network to save, for example mesh:8x8")
        _list_zoo(as_json)
        return
    if save is not None:
        check_writable(save, _SUFFIXES, "a topology")
    from pccl.topology import parse_topology, save_topology

    network = parse_topology(" ".join(text))
    if save is not None:
        save_topology(network, save)
    if as_json:
        print_json(_document(network))
        return
    print_facts(_facts(network) | ({} if save is None else {"saved to": str(save)}))
    _print_devices(network)
    _print_links(network)


def _list_zoo(as_json: bool) -> None:
    from pccl.topology import zoo

    entries = zoo()
    if as_json:
        keys = ("name", "arguments", "description", "example", "flags", "speeds")
        print_json([{key: getattr(entry, key) for key in keys} for entry in entries])
        return
    rows = [
        (f"{e.name}{_argument_text(e.arguments)}", e.description, e.example, ", ".join(e.flags))
        for e in entries
    ]
    print_table(("network", "what it is", "example", "flags"), rows, len(rows))
    if not rows:
        return
    click.echo(
        "\n'pccl topology TEXT' describes one; files and products ('ring:4 x switch:8') work as well."
    )


def _argument_text(arguments: str) -> str:
    return f"[:{arguments[1:]}" if arguments.startswith("[") else f":{arguments}"


def _facts(network: Topology) -> dict[str, str]:
    facts = {"name": network.name, "NPUs": f"{network.num_npus:,}{_shape(network)}"}
    if len(network.switches):
        facts["switches"] = f"{len(network.switches):,}"
    facts["links"] = f"{network.num_links:,}"
    facts |= _speeds(network)
    hops, problem = diameter(network)
    if problem:
        facts["diameter"] = problem
    elif hops is not None:
        facts["diameter"] = f"{hops} {'hop' if hops == 1 else 'hops'} between the farthest NPUs"
    return facts


def _shape(network: Topology) -> str:
    return f" ({' x '.join(map(str, network.shape))})" if len(network.shape) > 1 else ""


def _speeds(network: Topology) -> dict[str, str]:
    """Every bandwidth and latency with the number of its links, or the span when there are many."""
    import numpy as np

    from pccl.units import BytesPerSecond, Picoseconds

    facts = {}
    for name, column, kind in (
        ("bandwidth", network.bandwidth, BytesPerSecond),
        ("latency", network.latency, Picoseconds),
    ):
        values, counts = np.unique(column, return_counts=True)
        texts = [str(kind(value)) for value in values]
        if len(texts) == 1:
            facts[name] = texts[0]
        elif 1 < len(texts) <= 4:
            facts[name] = ", ".join(
                f"{text} ({n:,} links)" for text, n in zip(texts, counts.tolist(), strict=True)
            )
        elif texts:
            facts[name] = f"{texts[0]} to {texts[-1]}"
    return facts


def diameter(network: Topology) -> tuple[int | None, str]:
    """Links on the longest of the shortest paths between NPUs, and what is wrong if some NPU cannot reach another.

    The first is None when it would take long to find out.
    """
    import numpy as np

    if network.num_devices > _CHEAP:
        return None, ""
    # Row d: the devices that reach d so far, as bits; every step ORs the rows at the sources of the links into d.
    reached = np.packbits(np.eye(network.num_devices, dtype=np.bool_), axis=1)
    is_npu = np.isin(np.arange(network.num_devices), network.npus)
    wanted = np.packbits(is_npu)
    offsets, links = network.in_links
    entered = np.flatnonzero(np.diff(offsets))
    for hops in range(network.num_devices + 1):
        missing = wanted & ~reached[network.npus]
        if not missing.any():
            return hops, ""
        before = reached.copy()
        if len(links):
            reached[entered] |= np.bitwise_or.reduceat(
                before[network.src[links]], offsets[:-1][entered]
            )
        if np.array_equal(before, reached):
            break
    row = int(np.argmax(missing.any(axis=1)))
    sender, receiver = int(np.argmax(np.unpackbits(missing[row]))), int(network.npus[row])
    return None, f"none: {network.device_text(sender)} cannot reach {network.device_text(receiver)}"


def _print_devices(network: Topology) -> None:
    """The devices, if they are few and any of them has more to say than its number."""
    plain = all(label == f"npu{i}" for i, label in enumerate(network.labels))
    if plain or network.num_devices > _FEW_DEVICES:
        return
    rows = []
    for device in range(network.num_devices):
        kind = network.device_text(device).partition(" ")[0]
        limits = []
        if network.is_switch(device):
            limits.append(f"buffer of {network.buffer[device]}" if network.buffer[device] else "")
            limits.append("" if network.multicast[device] else "no multicast")
        out, into = ((column == device).sum() for column in (network.src, network.dst))
        rows.append(
            (device, network.labels[device], kind, out, into, ", ".join(filter(None, limits)))
        )
    click.echo()
    print_table((">device", "name", "kind", ">links out", ">links in", "limits"), rows, len(rows))


def _print_links(network: Topology) -> None:
    rows = list(_link_rows(network)) if network.num_links <= _FEW_LINKS else []
    if rows:
        click.echo()
        print_table((">link", "from", "to", ">bandwidth", ">latency", ""), rows, len(rows))


def _link_rows(network: Topology) -> Iterator[tuple[object, ...]]:
    from pccl.units import BytesPerSecond, Picoseconds

    for link in range(network.num_links):
        src, dst = (network.device_text(int(column[link])) for column in (network.src, network.dst))
        bandwidth, latency = (
            BytesPerSecond(network.bandwidth[link]),
            Picoseconds(network.latency[link]),
        )
        yield link, src, dst, bandwidth, latency, "exclusive" if network.exclusive[link] else ""


def _document(network: Topology) -> dict[str, Any]:
    from pccl.topology import topology_to_dict

    hops, _ = diameter(network)
    counts = {
        "num_npus": network.num_npus,
        "num_switches": len(network.switches),
        "num_links": network.num_links,
    }
    return counts | {"diameter_hops": hops, "topology": topology_to_dict(network)}
