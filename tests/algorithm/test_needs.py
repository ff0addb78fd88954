"""What a plan needs of switches: only what passing messages on one by one does not give."""

from __future__ import annotations

import pytest

import pccl
from pccl.topology import parse_topology


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("ring", ()),  # sums come to the switch as copies, and leave it to be added
        ("nccl-ring", ()),
        ("nccl-tree", ()),
        ("multitree", ()),
        ("nvls", ("multicast", "reduce")),
    ],
)
def test_what_baselines_need_of_a_switch_that_can_do_both(name, needs):
    able = parse_topology("switch:4,multicast=yes,reduce=yes")
    assert pccl.baseline(name, able, pccl.AllReduce("1MiB")).needs == needs


def test_what_a_plan_says_of_itself():
    able = parse_topology("switch:4,multicast=yes,reduce=yes")
    nvls = pccl.baseline("nvls", able, pccl.AllReduce("1MiB"))
    assert repr(nvls).endswith(" us, needs switches that multiply and add)")
    assert repr(nvls) in repr(pccl.simulate(nvls))
    assert "needs" not in repr(pccl.baseline("ring", able, pccl.AllReduce("1MiB")))
