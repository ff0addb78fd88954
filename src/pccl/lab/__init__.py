"""A network in a box: any topology on one machine, made of network namespaces and real TCP (Linux).

wiring       Wiring: what a topology becomes; wires, addresses, rates, routes
box          in_box(): namespaces that vanish with the work that is done in them
namespaces   build(): the network, made inside the box
"""

from pccl.lab.box import UnavailableError, in_box, why_not
from pccl.lab.wiring import Wire, Wiring, parse_rate

__all__ = ["UnavailableError", "Wire", "Wiring", "in_box", "parse_rate", "why_not"]
