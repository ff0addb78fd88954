"""What a plan needs of switches: only what passing messages on one by one does not give."""

from __future__ import annotations

import pytest

import pccl
from pccl.topology import parse_topology
from pccl.topology.parts import SWITCH


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


def is_correct_with(plan: pccl.Algorithm, *abilities: str) -> bool:
    """Whether a plan is correct where switches can do no more than that."""
    topology = plan.topology
    can = {
        name: (topology.kind != SWITCH) | (name in abilities) for name in ("multicast", "reduce")
    }
    t = plan.transfers
    columns = (t.chunk, t.link, t.start, t.reduce)
    world = topology.derived(name="less able", **can)
    try:
        pccl.verify(pccl.Algorithm.build(world, plan.collectives, *columns))
    except pccl.VerificationError:
        return False
    return True


@pytest.mark.parametrize("kind", [pccl.AllReduce, pccl.AllGather, pccl.Reduce, pccl.AllToAll])
@pytest.mark.parametrize("method", ["flooding", "price-guided"])
@pytest.mark.parametrize("name", ["switch:4", "leaf-spine:2x2x2"])
def test_without_what_it_needs_a_plan_is_wrong(name, method, kind):
    able = parse_topology(f"{name},multicast=yes,reduce=yes")
    plan = pccl.synthesize(able, kind("256KiB", chunks=2), method=method, effort="fast")
    assert is_correct_with(plan, *plan.needs)
    for one in plan.needs:
        assert not is_correct_with(plan, *({"multicast", "reduce"} - {one}))


def test_what_comes_too_late_was_not_passed_on():
    """The switch sends what has come once to both; that it comes again changes nothing."""
    star = pccl.topology.switch(3, multicast=True, latency="0ns", bandwidth="1GB/s")
    ends = list(zip(star.src.tolist(), star.dst.tolist(), strict=True))
    to_switch, to_one, to_other = map(ends.index, [(0, 3), (3, 1), (3, 2)])
    us = 10**6
    broadcast = [pccl.Broadcast("1kB", chunks=1)]
    links = [to_switch, to_switch, to_one, to_other]
    plan = pccl.Algorithm.build(star, broadcast, [0] * 4, links, [0, us, us, us])
    pccl.verify(plan)
    assert plan.needs == ("multicast",)
    in_time = pccl.Algorithm.build(star, broadcast, [0] * 4, links, [0, us, us, 2 * us])
    assert in_time.needs == ()
