"""The formats: found by name or suffix, with options that are checked before any work."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import pccl
from pccl._lazy import load_target
from pccl.formats import FORMATS, find_format
from tests.formats.programs import quick


def test_the_longest_suffix_decides():
    named = ("a.xml", "a.plan.json", "a.json", "a.csv", "a.pftrace", "a.parquet")
    assert [find_format(name).name for name in named] == [
        "msccl", "mscclpp", "json", "csv", "perfetto", "parquet",
    ]  # fmt: skip
    assert find_format("a.xml", "csv").name == "csv"


def test_unknown_formats_and_options_are_listed():
    with pytest.raises(pccl.PcclError, match=r"no format 'xls'; there are msccl, mscclpp, chakra"):
        find_format("a.xml", "xls")
    with pytest.raises(pccl.PcclError, match="does not end like any format"):
        pccl.export(None, "a.b")
    with pytest.raises(
        pccl.PcclError, match=r"msccl has no option 'speed'; its options are 'target', 'instances'"
    ):
        pccl.export(None, "a.xml", speed=2)
    with pytest.raises(pccl.PcclError, match="cannot be checked; those that can are msccl"):
        pccl.check("a.csv")
    with pytest.raises(pccl.PcclError, match="has no option 'speed'"):
        pccl.check("a.xml", speed=2)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("a.xml", {"lowered": "no"}, "lowered is True or False, not 'no'"),
        ("a.xml", {"all_ranks": "no"}, "all_ranks is True or False, not 'no'"),
        ("a.xml", {"in_place": "yes"}, "in_place is True or False, not 'yes'"),
        ("a.plan.json", {"in_place": "maybe"}, "in_place is True or False, not 'maybe'"),
        ("a.pftrace", {"merge": 1}, "merge is True or False, not 1"),
        ("a.xml", {"collective": "0"}, "collective is a whole number from 0 on, not '0'"),
        ("a.xml", {"min_bytes": 4}, "min_bytes 4 has no unit"),
        ("a.plan.json", {"max_bytes": 4}, "max_bytes 4 has no unit"),
    ],
)
def test_values_of_other_types_are_refused(tmp_path, path, options, message):
    algorithm = quick(pccl.topology.ring(3), pccl.AllGather("3kB"))
    with pytest.raises(pccl.PcclError, match=message):
        pccl.export(algorithm, tmp_path / path, **options)
    assert not (tmp_path / path).exists()


def test_none_is_not_given(tmp_path):
    algorithm = quick(pccl.topology.ring(3), pccl.AllGather("3kB"))
    nothing = {"in_place": None, "all_ranks": None, "min_bytes": None}
    assert pccl.export(algorithm, tmp_path / "a.plan.json", **nothing) == pccl.export(
        algorithm, tmp_path / "a.plan.json"
    )


@pytest.mark.parametrize("chosen", FORMATS.values(), ids=lambda f: f.name)
def test_options_are_the_keywords_of_the_writer(chosen):
    keywords = [
        p.name
        for p in inspect.signature(load_target(chosen.writer)).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    ]
    assert sorted(keywords) == sorted(option.name for option in chosen.options)


def test_the_package_is_the_verb(tmp_path):
    algorithm = quick(pccl.topology.ring(3), pccl.AllGather("3kB"))
    assert "allgather" in pccl.export(algorithm, tmp_path / "a.xml")["collective"]
    assert pccl.formats.import_msccl is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = pccl.formats.nothing


def test_listing_formats_loads_nothing_heavy():
    code = "import sys, pccl.formats; pccl.formats.FORMATS; assert not {'numpy', 'numba', 'rich'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
