"""A library of plans for a machine: found over sizes and collectives, as few as lose little, with an index and a page.

tasks    one plan of many, as plain data that any process can do; what is finished
work     getting tasks done, on this machine or on any executor
choice   every plan at every size, and the fewest that serve all of them
library  tune(): all of it
page     time over sizes, against NCCL and the bound
"""

from pccl.tuning.library import Library, Plan, Point, tune

__all__ = ["Library", "Plan", "Point", "tune"]
