"""``pccl topology``: the zoo of networks, and one of them described."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pccl.cli.console import check_writable, print_facts, print_json, print_table
from pccl.cli.networks import network_options, read_network
from pccl.cli.options import command, complete_topology, json_option, option
from pccl.errors import TopologyError
from pccl.units import counted

if TYPE_CHECKING:
    from pccl.topology import Topology

# Up to how many devices and links there are tables of them.
_FEW_DEVICES = 24
_FEW_LINKS = 48
# Devices up to which the diameter takes no noticeable time.
_CHEAP = 2_048
# Different bandwidths, latencies or gaps up to which each is listed.
_FEW_SPEEDS = 4
# What switches do that multiply, that add.
_ABILITIES = {
    (False, False): "plain",
    (True, False): "multiply",
    (False, True): "add",
    (True, True): "multiply and add",
}


@command(
    "pccl topology",
    "pccl topology mesh:8x8",
    "pccl topology torus:4x4x4@50GB/s,500ns",
    "pccl topology switch:8,bandwidth=50GB/s,latency=1us",
    "pccl topology ring:4@25GB/s x fully-connected:8@100GB/s",
    "pccl topology a100:4,nic=50GB/s,nic_latency=2us",
    "pccl topology h100:2,nvls=yes -o h100.yaml",
    "pccl topology h100:4 --without '24-27:rail*' --set 'rail0.bandwidth=25GB/s'",
    "pccl topology topo.xml --gpu h100 -o mine.yaml",
    "pccl topology node1.txt node2.txt ibnetdiscover.out",
)
# Several words, so that 'ring:4 x switch:8' needs no quotes.
@click.argument("text", nargs=-1, shell_complete=complete_topology)
@option("-o --save FILE", "Write the network to .yaml or .json, to be edited.")
@network_options
@json_option
def topology(text: tuple[str, ...], save: Path | None, as_json: bool, **flags: Any) -> None:
    """Describe the network that TEXT stands for; without TEXT, list the networks that have a name.

    TEXT is name:AxBxC, then options such as bandwidth=50GB/s after commas; or files, also those that NCCL, RCCL,
    nvidia-smi, rocm-smi, ibnetdiscover, SLURM and others write; 'A x B' is a product. All of it is explained in
    docs/topologies.md and docs/importing.md.
    """
    if not text:
        given = [name for name, value in flags.items() if value not in (None, ())]
        if given:
            raise click.UsageError("there is no network to change; give one, for example mesh:8x8")
        if save:
            raise click.UsageError("--save needs the network to save, for example mesh:8x8")
        _list_zoo(as_json)
        return
    if save:
        # Before the network is made, which for a large one takes a while.
        check_writable(save, (".yaml", ".yml", ".json"), "a topology")
    from pccl.topology import named_in, save_topology, topology_to_dict

    # Several files need no sign between them.
    are_files = len(text) > 1 and all(Path(word).is_file() for word in text)
    line = (" + " if are_files else " ").join(text)
    network, reading = read_network(line, flags)
    sources = {entry.name: entry.source for entry in named_in(line) if entry.source}
    if save:
        save_topology(network, save)
    if as_json:
        print_json(
            {
                "num_npus": network.num_npus,
                "num_switches": len(network.switches),
                "num_links": network.num_links,
                "diameter_hops": _diameter(network)[0],
                "sources": sources,
                "formats": reading.formats if reading else (),
                "found": reading.found if reading else (),
                "assumed": reading.assumed if reading else (),
                "topology": topology_to_dict(network),
            }
        )
        return
    # What is long comes last: a summary, then the devices, then the links.
    facts = _facts(network)
    if reading:
        facts["read as"] = ", ".join(reading.formats)
        facts |= {"found": _lines(reading.found), "assumed": _lines(reading.assumed)}
        facts = {name: text for name, text in facts.items() if text}
    for name, source in sources.items():
        label = "source" if len(sources) == 1 else f"source of {name}"
        facts[label] = f"{source}; options as given" if "=" in line else source
    if save:
        facts["saved to"] = str(save)
    print_facts(facts)
    _print_devices(network)
    _print_links(network)


def _lines(texts: Sequence[str]) -> str:
    """Several texts, one below the other in the second column."""
    return f"\n{' ' * 13}".join(texts)


def _list_zoo(as_json: bool) -> None:
    from pccl.topology import zoo

    entries = zoo()
    if as_json:
        # Picked by name: an entry also has the function that makes the network.
        keys = ("name", "arguments", "description", "example", "options", "speeds", "source")
        print_json([{key: getattr(entry, key) for key in keys} for entry in entries])
        return
    rows = [(e.usage, e.description, e.example, ", ".join(e.options)) for e in entries]
    print_table(("network", "what it is", "example", "options"), rows, len(rows))
    click.echo(
        "\n'pccl topology TEXT' describes one; files and products ('ring:4 x switch:8') work as well."
    )


def _facts(network: Topology) -> dict[str, str]:
    facts = {"name": network.name, "NPUs": f"{network.num_npus:,}"}
    # The shape of a ring or of a switch is its number of NPUs, which is said already.
    if len(network.shape) > 1:
        facts["NPUs"] += f" ({' x '.join(map(str, network.shape))})"
    if len(network.switches):
        facts["switches"] = _switches(network)
    facts["links"] = f"{network.num_links:,}"
    if network.lost:
        facts["lost"] = counted(len(network.lost), "link")
    facts |= _speeds(network)
    # A network in two parts is described like any other, and said to be in two parts.
    hops, problem = _diameter(network)
    if hops is not None:
        facts["diameter"] = f"{counted(hops, 'hop')} between the farthest NPUs"
    elif problem:
        facts["diameter"] = f"none: {problem}"
    return facts


def _switches(network: Topology) -> str:
    """How many switches there are, and which of them multiply and add."""
    alike: dict[str, list[str]] = {}
    for device in network.switches:
        alike.setdefault(_ability(network, device), []).append(network.labels[device])
    total = len(network.switches)
    if len(alike) == 1:
        (ability,) = alike
        return f"{total:,}, {'all ' if total > 1 else ''}{ability}"
    groups = [
        f"{len(labels):,} {ability} ({labels[0] if len(labels) == 1 else f'{labels[0]} to {labels[-1]}'})"
        for ability, labels in alike.items()
    ]
    return f"{total:,}: {', '.join(groups)}"


def _ability(network: Topology, switch: int) -> str:
    return _ABILITIES[bool(network.multicast[switch]), bool(network.reduce[switch])]


def _diameter(network: Topology) -> tuple[int | None, str]:
    """The diameter, or why there is none; neither if it would take long to find out."""
    if network.num_devices > _CHEAP:
        return None, ""
    try:
        return network.diameter(), ""
    except TopologyError as problem:
        return None, str(problem)


def _speeds(network: Topology) -> dict[str, str]:
    """Every bandwidth, latency and gap with the number of its links, or the span when there are many."""
    import numpy as np

    from pccl.units import BytesPerSecond, Picoseconds

    facts = {}
    kinds = (("bandwidth", BytesPerSecond), ("latency", Picoseconds), ("gap", Picoseconds))
    for name, kind in kinds:
        # Ascending, so that the first and the last are the span.
        values, counts = np.unique(getattr(network, name), return_counts=True)
        texts = [str(kind(value)) if value else "none" for value in values]
        # A list of twenty bandwidths is noise; their span is not.
        if len(texts) > _FEW_SPEEDS:
            facts[name] = f"{texts[0]} to {texts[-1]}"
        elif len(texts) == 1:
            facts[name] = texts[0]
        elif texts:
            links = [counted(number, "link") for number in counts.tolist()]
            facts[name] = ", ".join(f"{t} ({n})" for t, n in zip(texts, links, strict=True))
    return facts


def _print_devices(network: Topology) -> None:
    """The devices, if they are few and any of them has more to say than its number."""
    # Numbers and names that follow from them would say nothing new.
    plain = all(label == f"npu{i}" for i, label in enumerate(network.labels))
    if plain or network.num_devices > _FEW_DEVICES:
        return
    rows = []
    for device, label in enumerate(network.labels):
        abilities = []
        # NPUs have no such limits: they store what they receive, and send it to whom they like.
        if network.is_switch(device):
            abilities.append(_ability(network, device))
            if network.buffer[device]:
                abilities.append(f"buffer of {network.buffer[device]}")
        out = (network.src == device).sum()
        into = (network.dst == device).sum()
        rows.append((device, label, network.kind_text(device), out, into, ", ".join(abilities)))
    click.echo()
    print_table(
        (">device", "name", "kind", ">links out", ">links in", "abilities"), rows, len(rows)
    )


def _print_links(network: Topology) -> None:
    from pccl.topology import topology_to_dict

    if not 0 < network.num_links <= _FEW_LINKS:
        return
    rows = [
        (
            number,
            network.device_text(link["src"]),
            network.device_text(link["dst"]),
            link["bandwidth"],
            link["latency"],
            link.get("gap", "none"),
            # The usual link is pipelined, which is not worth a word in every row.
            "exclusive" if "exclusive" in link else "",
        )
        for number, link in enumerate(topology_to_dict(network)["links"])
    ]
    click.echo()
    print_table((">link", "from", "to", ">bandwidth", ">latency", ">gap", ""), rows, len(rows))
