"""Quantities: text on the outside, exact integers inside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pccl.errors import UnitError
from pccl.units import ANY_WORDS, YES_NO, Bytes, BytesPerSecond, Picoseconds, parse, truth


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Bytes, "1B", 1),
        (Bytes, "1kB", 1000),
        (Bytes, "1KB", 1000),
        (Bytes, "1KiB", 1024),
        (Bytes, "128MiB", 128 * 2**20),
        (Bytes, "128M", 128 * 2**20),  # as nccl-tests counts
        (Bytes, "8k", 8192),
        (Bytes, " 1_000 B ", 1000),
        (Bytes, "1.5KiB", 1536),
        (Bytes, ".5KiB", 512),
        (Bytes, "1e9B", 10**9),
        (Picoseconds, "500ns", 500_000),
        (Picoseconds, "0.5us", 500_000),
        (Picoseconds, "0.5µs", 500_000),
        (Picoseconds, "936.25ns", 936_250),
        (Picoseconds, "1s", 10**12),
        (Picoseconds, "0ns", 0),
        (BytesPerSecond, "50GB/s", 50 * 10**9),
        (BytesPerSecond, "50GiB/s", 50 * 2**30),
        (BytesPerSecond, "400Gbps", 50 * 10**9),
        (BytesPerSecond, "400Gb/s", 50 * 10**9),
        (BytesPerSecond, "8bps", 1),
    ],
)
def test_texts_and_their_values(kind, text, value):
    assert parse(kind, text) == value
    assert type(parse(kind, text)) is kind


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (Bytes, "128", "size '128' has no unit: write for example '128MiB'"),
        (Bytes, 128, "size 128 has no unit"),
        (Picoseconds, 0.5, "time 0.5 has no unit"),
        (Picoseconds, "5GB", "unknown unit 'GB'; use ns or us"),
        (Bytes, Picoseconds(5), "must be text with a unit"),
        (Bytes, None, "must be text with a unit"),
        (Bytes, True, "must be text with a unit"),
        (Bytes, "", "not a number followed by a unit"),
        (Bytes, "-1B", r"not a number followed by a unit \(.*\); it must not be negative"),
        (Bytes, "nanB", "not a number followed by a unit"),
        (Bytes, "1 000B", "not a number followed by a unit"),
        (Bytes, "0.3B", "not a whole number of bytes"),
        (Picoseconds, "0.1ps", "not a whole number of picoseconds"),
        (Bytes, "1e30B", "too large"),
        (Bytes, "1e999999999B", "too large"),
        (Bytes, "9" * 5000 + "B", "too large"),
        (Bytes, Bytes(2**62), "too large"),
        (Bytes, Bytes(-1), "negative"),
    ],
)
def test_what_is_refused(kind, given, message):
    with pytest.raises(UnitError, match=message):
        parse(kind, given)


def test_errors_name_the_thing():
    with pytest.raises(UnitError, match=r"^latency of link 3 7 has no unit"):
        parse(Picoseconds, 7, "latency of link 3")


@given(st.sampled_from([Bytes, Picoseconds, BytesPerSecond]), st.integers(0, 2**62 - 1))
def test_text_reads_back_exactly(kind, value):
    quantity = kind(value)
    assert parse(kind, str(quantity)) == quantity
    assert parse(kind, quantity) is quantity


@pytest.mark.parametrize(
    ("kind", "bare", "example"),
    [
        (Bytes, 4194304, "'4MiB'"),
        (Bytes, "4096", "'4KiB'"),
        (Bytes, 128, "'128MiB'"),
        (BytesPerSecond, 5e10, "'50GB/s'"),
        (BytesPerSecond, 400, "'400Gbps'"),
    ],
)
def test_large_bare_numbers_are_taken_for_bytes_in_the_suggestion(kind, bare, example: str) -> None:
    with pytest.raises(UnitError, match=f"write for example {example}"):
        parse(kind, bare)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400])
def test_no_number_is_suggested_where_there_is_none(value) -> None:
    with pytest.raises(UnitError, match="must be text with a unit"):
        parse(Bytes, value)


@pytest.mark.parametrize(
    ("value", "words", "found"),
    [
        (True, None, True),
        (np.False_, None, False),
        ("yes", None, None),
        (1, None, None),
        (None, None, None),
        (np.array([True]), None, None),
        ("No", YES_NO, False),
        ("true", YES_NO, None),
        (1, YES_NO, None),
        ("False", ANY_WORDS, False),
        (np.int64(1), ANY_WORDS, True),
        (2, ANY_WORDS, None),
        (1.0, ANY_WORDS, None),
        ([], ANY_WORDS, None),
    ],
)
def test_truth_is_told_and_not_guessed(value, words, found):
    assert truth(value, words) is found
