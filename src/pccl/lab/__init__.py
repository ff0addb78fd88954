"""A network in a box: any topology on one machine, made of network namespaces and real TCP (Linux).

wiring       Wiring: what a topology becomes; wires, addresses, rates, routes
box          in_box(): namespaces that vanish with the work that is done in them
namespaces   build(): the network, made inside the box
ranks        what ranks do inside
measure      measure(): a plan and baselines, as planned and as measured
probe        what links are really like: latency, bandwidth, gap
"""

from pccl.lab.box import UnavailableError, in_box, why_not
from pccl.lab.measure import Row, measure
from pccl.lab.wiring import Wire, Wiring, parse_rate

__all__ = [
    "Row",
    "UnavailableError",
    "Wire",
    "Wiring",
    "in_box",
    "measure",
    "parse_rate",
    "why_not",
]
