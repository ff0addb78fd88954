"""What writers for runtimes promise: how long a plan takes as messages, and why not as planned."""

from __future__ import annotations

import pytest

from pccl.formats.runtime_files import Promise
from pccl.units import Picoseconds


@pytest.mark.parametrize(
    ("lowered", "text"),
    [
        (5_980_000, "5.98 us, as planned and as messages between NPUs"),
        (5_979_000, "5.98 us, as planned and as messages between NPUs"),
        (5_980_900, "5.98 us, as planned and as messages between NPUs"),
        (5_920_200, "5.98 us planned, but 5.92 us as messages between NPUs (1.0% less)"),
        (6_039_800, "5.98 us planned, but 6.04 us as messages between NPUs (1.0% more)"),
        (
            8_970_000,
            "5.98 us planned, but 8.97 us as messages between NPUs (50.0% more); a plan --for msccl suits it better",
        ),
    ],
)
def test_times_that_differ_by_nothing_that_shows_are_one(lowered, text):
    facts = Promise("msccl", Picoseconds(5_980_000), Picoseconds(lowered)).facts
    assert facts == {"time": text}


def test_why_messages_take_longer_is_said():
    facts = Promise("msccl", Picoseconds(2_000), Picoseconds(3_000), ("reduce",)).facts
    assert facts["needs"] == (
        "to be as planned, switches that add messages up (reduce), and a runtime that has them do it"
    )
    assert (
        "needs" not in Promise("msccl", Picoseconds(2_000), Picoseconds(2_000), ("reduce",)).facts
    )


def test_a_plan_that_takes_no_time():
    assert "as planned" in Promise("msccl", Picoseconds(0), Picoseconds(0)).facts["time"]
