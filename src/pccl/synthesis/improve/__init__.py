"""Improvements: from a schedule to a better one.

retime    other starts for the same routes
reroute   other routes for what is late
reorder   what the next try of a method can learn
"""

from __future__ import annotations

from pccl.synthesis.improve.reorder import learned_orders
from pccl.synthesis.improve.reroute import rerouted
from pccl.synthesis.improve.retime import AS_IT_IS, retimed

__all__ = ["AS_IT_IS", "learned_orders", "rerouted", "retimed"]
