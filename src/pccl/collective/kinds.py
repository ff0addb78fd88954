"""The kinds of collectives: the name of each, and where its class is. To add one, add a line below.

This module imports nothing heavy, so that the help of the command line can name the kinds at once.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of collective.

    Attributes
    ----------
    target
        Its class, as ``module:class`` of this package.
    fits_flags
        Whether flags can describe it; a list of chunks needs a spec file.
    """

    target: str
    fits_flags: bool = True


KINDS = {
    "all-gather": Kind("collectives:AllGather"),
    "reduce-scatter": Kind("collectives:ReduceScatter"),
    "all-reduce": Kind("collectives:AllReduce"),
    "all-to-all": Kind("exchanges:AllToAll"),
    "all-to-all-v": Kind("exchanges:AllToAllV"),
    "broadcast": Kind("collectives:Broadcast"),
    "reduce": Kind("collectives:Reduce"),
    "scatter": Kind("collectives:Scatter"),
    "gather": Kind("collectives:Gather"),
    "send-recv": Kind("collectives:SendRecv"),
    "custom": Kind("custom:Custom", fits_flags=False),
}
