"""Which methods are tried first, and what the settings rule out."""

from __future__ import annotations

from dataclasses import fields

import pytest

import pccl
from pccl.settings import Settings
from pccl.synthesis.methods import METHODS
from pccl.synthesis.methods.choice import Choice
from tests.synthesis.posing import pose

EVEN = {"bandwidth": "1GB/s", "latency": "0ns"}
MESH = pccl.topology.mesh(4, 4, **EVEN)


def names(topology, collective, **settings):
    openings = Choice(METHODS, Settings(**settings)).openings(pose(topology, collective))
    return [method.name for method in openings]


def test_everybody_to_everybody_over_links_that_are_alike_is_flooded_first():
    assert names(MESH, pccl.AllGather("16kB"))[0] == "flooding"


def test_over_links_that_differ_prices_come_first():
    machine = pccl.topology.parse_topology("a100:2")
    assert names(machine, pccl.AllGather("16kB"))[0] == "price-guided"


def test_a_few_npus_take_detours_first():
    openings = Choice(METHODS, Settings()).openings(pose(MESH, pccl.AllToAll("4kB", range(4))))
    assert [method.routes for method in openings] == ["any", "minimal"]


def test_settings_decide():
    assert names(MESH, pccl.AllToAll("16kB"), method="price-guided") == ["price-guided"]
    assert "flooding" not in names(MESH, pccl.AllGather("16kB"), order="rounds")
    methods = Choice(METHODS, Settings(order="random")).variants(pose(MESH, pccl.AllGather("16kB")))
    assert {method.order for method in methods} == {"random"}


def test_what_cannot_be_chosen():
    with pytest.raises(pccl.PcclError, match="flooding has no routes to choose"):
        Choice(METHODS, Settings(method="flooding", routes="any"))
    with pytest.raises(pccl.PcclError, match="there is no order 'alphabetical'"):
        Choice(METHODS, Settings(order="alphabetical"))


def test_the_help_names_all_methods():
    (about,) = (one.metadata["help"] for one in fields(Settings) if one.name == "method")
    assert all(name in about for name in METHODS)
