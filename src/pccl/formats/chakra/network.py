"""Networks of ASTRA-sim's backend that knows congestion: one dimension, links that are all alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from pccl._arrays import Column
from pccl.topology import Topology, fully_connected, ring, switch
from pccl.units import BytesPerSecond, Picoseconds

# In the order of preference: a ring of two is both of the first.
_BLOCKS: dict[str, Any] = {"FullyConnected": fully_connected, "Ring": ring, "Switch": switch}


def network_file(topology: Topology) -> tuple[str, str]:
    """Return the text of the network file, empty if there is none, and a line about it for people.

    Where every message takes one link, a network in which everybody is joined to everybody keeps the same times: those
    of its links that are not there in truth are not used.
    """
    alike = len(np.unique(topology.latency)) == 1 and len(np.unique(topology.bandwidth)) == 1
    parallel = _ends(topology).shape[1] < topology.num_links
    if topology.num_npus < 2 or not alike or np.any(topology.exclusive) or parallel:
        return "", "none: ASTRA-sim's has no parallel, exclusive or different links"
    name = _block(topology)
    about = "the same network"
    if not name:
        if len(topology.switches):
            return "", "none: ASTRA-sim's has one switch at most, which joins all NPUs"
        name = "FullyConnected"
        about = "a stand-in that has all links of this network, and more that are not used"
    lines = {
        "topology": name,
        "npus_count": topology.num_npus,
        "bandwidth": BytesPerSecond(topology.bandwidth[0]) / 2**30,
        "latency": Picoseconds(topology.latency[0]) / 1000,
    }
    text = "".join(f"{key}: [ {value} ]\n" for key, value in lines.items())
    return text, f"network.yml, {about}"


def _block(topology: Topology) -> str:
    """Return the building block of ASTRA-sim that has exactly these links, or nothing."""
    count = topology.num_npus
    links = {"FullyConnected": count * (count - 1), "Switch": 2 * count}
    for name, make in _BLOCKS.items():
        # Not built in vain: it may be very large.
        if topology.num_links != links.get(name, topology.num_links):
            continue
        block = make(count)
        if np.array_equal(_ends(topology), _ends(block)):
            return name
    return ""


def _ends(topology: Topology) -> Column:
    return np.unique(np.stack([topology.src, topology.dst]), axis=1)
