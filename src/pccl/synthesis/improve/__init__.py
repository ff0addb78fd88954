"""Improvements: from a schedule to a better one. To add one, write a class beside these and name it here.

base      what an improvement is
retime    other starts for the same routes: the polish of whatever a method finds
reorder   the same method again, in an order that the schedule teaches
reroute   other routes for what is late
"""

from __future__ import annotations

from pccl.synthesis.improve.base import Aim, Improvement
from pccl.synthesis.improve.reorder import Reorder
from pccl.synthesis.improve.reroute import Reroute, rerouted
from pccl.synthesis.improve.retime import AS_IT_IS, Timing, retimed

__all__ = ["AS_IT_IS", "IMPROVEMENTS", "Aim", "Improvement", "Timing", "rerouted", "retimed"]

# The best is varied by these in turn, beginning with the first.
IMPROVEMENTS: tuple[Improvement, ...] = (Reorder(), Reroute())
