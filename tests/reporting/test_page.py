"""The page as a file: complete in itself, well formed, and true to the algorithm."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pccl
from pccl.analysis import comparison
from pccl.reporting.page.commands import commands
from pccl.reporting.page.data import load_over_time, pack, sample
from pccl.units import time_text
from tests.algorithm.examples import LINE, schedule
from tests.end_to_end.program import pccl as program
from tests.end_to_end.program import refused
from tests.reporting import pages
from tests.strategies import problems, synthesized


class Outline(HTMLParser):
    """Tags with their attributes, in order; and the text of the page without its scripts and its style."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "input"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] not in ("script", "style"):
            self.text += data

    def of(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


@pytest.fixture(scope="module")
def outline():
    return Outline(pages.page("two_groups").read_text(encoding="utf-8"))


# --- the file --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two_groups", "hostile", "million"])
def test_nothing_is_loaded_from_anywhere(name):
    text = pages.page(name).read_text(encoding="utf-8")
    outline = Outline(text)
    references = [
        tag.get(key)
        for _, tag in outline.tags
        for key in ("src", "href", "action", "data", "srcset")
    ]
    assert all(reference.startswith("#") for reference in references if reference is not None)
    assert not outline.of("link", "img", "iframe", "object", "embed", "base")
    assert not re.search(r"https?:|@import|url\(|import\(|fetch\(|XMLHttpRequest|WebSocket", text)
    assert [tag["content"] for tag in outline.of("meta") if tag.get("http-equiv")] == [
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
    ]


def test_pages_are_small():
    assert pages.page("two_groups").stat().st_size < 3_000_000
    assert pages.page("million").stat().st_size < 5_000_000


def test_structure_for_those_who_listen(outline):
    assert outline.of("html")[0]["lang"] == "en"
    headings = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    names = [tag["id"] for _, tag in outline.tags if "id" in tag]
    assert max(Counter(names).values()) == 1
    for _, tag in outline.tags:
        for key in ("aria-labelledby", "aria-describedby", "for"):
            assert set((tag.get(key) or "").split()) <= set(names)
        assert (tag.get("href") or "#").removeprefix("#") in [*names, ""]
    assert len(outline.of("table")) == len(outline.of("caption")) == 5


def test_the_text_says_what_was_asked_and_found(outline):
    algorithm = pages.two_groups()
    bound = pccl.lower_bound(algorithm.topology, *algorithm.collectives)
    for text in (
        "all-to-all and all-reduce on mesh:8x8", *map(str, algorithm.collectives), algorithm.duration_text,
        bound.reason, f"{int(algorithm.duration) / int(bound.value) - 1:.1%}", algorithm.provenance.method,
        "pccl export two_groups.pccl --format perfetto -o two_groups.pftrace",
        "pccl export two_groups.pccl --format msccl -o two_groups.xml --collective 0",
        "The algorithm was verified",
        "Moving chunks are all chunks with all their transfers.",
    ):  # fmt: skip
        assert text in outline.text
    confined = int(pccl.baseline("confined", algorithm.topology, *algorithm.collectives).duration)
    assert f"{confined / int(algorithm.duration):.2f}×" in outline.text
    assert re.search(r"double-tree, multitree.* \(does not support all-to-all\)", outline.text)


@pytest.mark.parametrize(
    ("baselines", "over"),
    [
        (["ring", "nccl-ring"], "over nccl-ring, what you have today"),
        (["ring"], "over ring, the best baseline"),
    ],
)
def test_the_speed_up_is_over_what_people_have_today(tmp_path, baselines, over):
    algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB"), effort="fast")
    pccl.report(algorithm, tmp_path / "page.html", baselines=baselines)
    assert over in Outline((tmp_path / "page.html").read_text(encoding="utf-8")).text


def test_names_that_try_to_be_html_stay_text():
    text = pages.page("hostile").read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 3
    assert "<img" not in text
    assert pages.HOSTILE in Outline(text).text
    assert pages.contents(pages.page("hostile"))[0]["devices"][0] == f"NPU 0 ({pages.HOSTILE})"


def test_each_of_several_collectives_has_a_bar(outline):
    """From its first transfer to its last, and a mark where it would be done at the earliest if it were alone."""
    rows = pccl.each_collective(pages.two_groups())
    whole = int(pages.two_groups().duration)
    bars = [tag["style"] for tag in outline.of("span") if tag.get("class") == "under-way"]
    marks = [tag["style"] for tag in outline.of("span") if tag.get("class") == "mark"]
    for number, row in enumerate(rows):
        share = 100 * (int(row.finish) - int(row.begin)) / whole
        assert f"width:{share:.2f}%;background:var(--colour-{number})" in bars[number]
        assert marks[number] == f"left:{100 * int(row.bound) / whole:.2f}%"
        assert time_text(int(row.finish)) in outline.text
    assert len(bars) == len(marks) == len(rows)
    alone = Outline(pages.page("unequal").read_text(encoding="utf-8"))
    assert "under way</caption>" not in alone.text
    assert [tag for tag in alone.of("section") if tag["id"] == "gantt"] == []


def test_long_names_are_shortened(tmp_path):
    pair = [pccl.Link(0, 1, "1GB/s", "1us"), pccl.Link(1, 0, "1GB/s", "1us")]
    network = pccl.Topology.from_links(["n" * 20_000, "b"], pair, name="x" * 20_000)
    algorithm = pccl.synthesize(network, pccl.AllGather("2MiB", chunks=1))
    pccl.report(algorithm, tmp_path / "page.html", baselines=False, source="plan.pccl")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "n" * 101 not in text
    assert len(re.findall("x{101,}", text)) == 1  # where the network is described in full
    assert "x…" in text


def test_a_large_page_says_what_is_a_sample():
    text = Outline(pages.page("million").read_text(encoding="utf-8")).text
    document, columns = pages.contents(pages.page("million"))
    shown = f"{len(columns['chunk']):,} of 999,000 chunks, with {len(columns['link']):,} of 1,000,000 transfers"
    assert f"Moving chunks are a sample: {shown}" in text
    assert "was not verified" in text
    assert "Baselines left out: all of them, as asked." in text
    assert 150_000 < len(columns["link"]) <= 200_000
    assert document["chunks"] == 999_000


# --- the data --------------------------------------------------------------------------------------------------------


def test_columns_are_those_of_the_algorithm():
    algorithm = pages.two_groups()
    document, columns = pages.contents(pages.page("two_groups"))
    t = algorithm.transfers
    assert np.array_equal(columns["link"], t.link)
    assert np.array_equal(columns["start"].astype(np.int64) * document["tick"], t.start)
    assert np.array_equal(np.repeat(columns["chunk"], columns["hops"]), t.chunk)
    assert np.array_equal(columns["reduce"], t.reduce)
    rates, sizes = len(document["bandwidths"]), np.repeat(columns["size"], columns["hops"])
    transmission = np.array(document["transmission"])[sizes * rates + columns["rate"][t.link]]
    latency = np.array(document["latency"])[columns["latency"][t.link]]
    assert np.array_equal(t.start + transmission + latency, t.arrival)
    assert np.allclose(columns["busy"], pccl.simulate(algorithm).utilization)
    assert document["groups"] == ["0-7", "56-63"]
    assert columns["members"].tolist() == [*range(8), *range(56, 64)]


def test_long_algorithms_count_in_longer_ticks(tmp_path):
    algorithm = schedule(
        LINE, pccl.Broadcast("1kB", group=[0, 2]), (0, 0, 1, 0), (0, 1, 2, 7_000_000)
    )
    pccl.report(algorithm, tmp_path / "long.html", baselines=False)
    document, columns = pages.contents(tmp_path / "long.html")
    assert document["tick"] == 1630
    assert abs(int(columns["start"][1]) * 1630 - 7 * 10**12) < 1630


def held_in(algorithm, collective, link, begin, end):
    t = algorithm.transfers
    rows = np.flatnonzero(
        (t.link == link) & (algorithm.conditions.collective[t.chunk] == collective)
    )
    ends = t.start + t.hold
    return sum(max(0.0, min(ends[i], end) - max(t.start[i], begin)) for i in rows)


@settings(max_examples=25, deadline=None)
@given(problems(), st.integers(1, 9))
def test_load_counts_every_transfer(problem, intervals):
    algorithm = synthesized(problem, effort="fast")
    load = load_over_time(algorithm, intervals=intervals)
    width = max(int(algorithm.duration), 1) / intervals
    assert load.apart
    assert load.share.shape == (len(load.link), intervals)
    held = np.zeros((len(problem[1]), problem[0].num_links, intervals))
    for collective, link, k in np.ndindex(held.shape):
        held[collective, link, k] = held_in(algorithm, collective, link, k * width, (k + 1) * width)
    share = np.clip(held / width, 0, 1)
    assert np.allclose(load.share, 255 * share[load.collective, load.link], atol=0.51)
    assert np.allclose(load.curve, share.mean(axis=1), atol=1e-5)


def test_too_many_collectives_are_not_told_apart():
    load = load_over_time(pages.two_groups(), most_cells=1000)
    assert not load.apart
    assert len(load.curve) == 1
    assert np.array_equal(load.link, np.unique(pages.two_groups().transfers.link))
    apart = load_over_time(pages.two_groups(), intervals=load.share.shape[1])
    assert np.allclose(load.curve.sum(axis=0), apart.curve.sum(axis=0), atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(problems(), st.integers(0, 60), st.integers(0, 3))
def test_samples_are_whole_chunks(problem, most, seed):
    algorithm = synthesized(problem, effort="fast")
    shown = sample(algorithm, most=most, seed=seed)
    t = algorithm.transfers
    assert len(shown.transfers) <= max(most, 0)
    assert np.array_equal(shown.transfers, np.flatnonzero(np.isin(t.chunk, shown.chunks)))
    assert np.all(np.diff(shown.chunks) > 0)


def test_samples_have_the_latest_chunks_and_all_collectives():
    algorithm = pages.two_groups()
    shown = sample(algorithm, most=400)
    late = pccl.simulate(algorithm).chunk_finish
    assert int(np.argmax(late)) in shown.chunks
    assert set(algorithm.conditions.collective[shown.chunks]) == {0, 1}
    assert not np.array_equal(shown.chunks, sample(algorithm, most=400, seed=1).chunks)


@given(st.lists(st.integers(0, 2**32 - 1)), st.lists(st.floats(width=32, allow_nan=False)))
def test_columns_come_back(whole, real):
    columns = {"whole": np.array(whole, np.int64), "real": np.array(real, np.float64)}
    back = pages.unpack(*pack(columns))
    assert back["whole"].tolist() == whole
    assert back["real"].tolist() == real


@settings(max_examples=15, deadline=None)
@given(problem=problems())
def test_any_algorithm_has_a_page(tmp_path_factory, problem):
    path = tmp_path_factory.getbasetemp() / "any.html"
    pccl.report(synthesized(problem, effort="fast"), path, baselines=False)
    document, columns = pages.contents(path)
    assert len(document["devices"]) == len(columns["x"]) == problem[0].num_devices


# --- what can be asked for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [LINE, pccl.Topology.from_links(1, [])])
def test_an_algorithm_that_does_nothing(tmp_path, topology):
    idle = pccl.Algorithm.build(topology, [pccl.AllGather("1kB", group=[0], chunks=1)], [], [], [])
    assert pccl.report(idle, tmp_path / "idle.html", baselines=False)["chunks shown"] == "all"
    text = Outline((tmp_path / "idle.html").read_text(encoding="utf-8")).text
    assert "The busiest links: there are none." in text
    assert len(pages.contents(tmp_path / "idle.html")[1]["x"]) == topology.num_devices


def test_a_wrong_algorithm_has_no_page(tmp_path):
    wrong = schedule(LINE, pccl.Broadcast("1kB"), (0, 1, 2, 0))
    with pytest.raises(pccl.VerificationError):
        pccl.report(wrong, tmp_path / "wrong.html")
    assert not (tmp_path / "wrong.html").exists()
    with pytest.raises(pccl.PcclError, match="a report is about an algorithm, not 'ring:4'"):
        pccl.report("ring:4", tmp_path / "wrong.html")
    with pytest.raises(pccl.FormatError, match="there is no folder"):
        pccl.report(wrong, tmp_path / "no" / "wrong.html")
    with pytest.raises(pccl.PcclError, match=r"a list of names, such as \['ring'\]"):
        pccl.report(wrong, tmp_path / "wrong.html", baselines="ring")


def test_baselines_that_take_long_run_on_request_only(tmp_path, monkeypatch):
    monkeypatch.setattr(comparison, "QUICK_TRANSFERS", 10)
    algorithm = pccl.synthesize(
        pccl.topology.mesh(3, 3), pccl.AllToAll("9kB", chunks=1), effort="fast"
    )
    page = tmp_path / "report.html"
    pccl.report(algorithm, page)
    text = Outline(page.read_text(encoding="utf-8")).text
    assert "direct, bruck, hierarchical (beyond 10 transfers only on request)" in text
    assert "(does not support all-to-all)" in text
    assert pccl.report(algorithm, page, baselines=["direct"], bound=False)["baselines"] == "direct"
    text = Outline(page.read_text(encoding="utf-8")).text
    direct = pccl.baseline("direct", algorithm.topology, *algorithm.collectives)
    assert f"{direct.duration / algorithm.duration:.2f}×" in text
    assert "Lower bound" not in text
    assert "Gap" not in text


def test_a_baseline_that_does_not_apply_is_refused_if_it_was_asked_for(tmp_path):
    algorithm = pages.two_groups()
    with pytest.raises(pccl.PcclError, match="there is no baseline 'rings'; there are nccl-ring"):
        pccl.report(algorithm, tmp_path / "a.html", baselines=["rings"])
    with pytest.raises(pccl.PcclError, match="'ring': does not support all-to-all"):
        pccl.report(algorithm, tmp_path / "a.html", baselines=["ring"])
    assert not list(tmp_path.iterdir())


# --- what to do next -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two_groups", "hostile", "relayed", "unequal"])
def test_the_commands_of_a_page_work(tmp_path, monkeypatch, name):
    algorithm = getattr(pages, name)()
    monkeypatch.chdir(tmp_path)
    algorithm.save("a b.pccl")
    lines = [line for _, line in commands(algorithm, "a b.pccl").listed]
    exported = [line.split("--format ")[1].split()[0] for line in lines if "--format" in line]
    assert {"msccl", "chakra", "perfetto", "json", "csv"} <= set(exported)
    for line in lines:
        words = shlex.split(line)
        assert words[0] == "pccl"
        result = program(*words[1:])
        assert result.exit_code == 0, result.output


def test_formats_that_refuse_an_algorithm_have_no_command():
    conditions = [pccl.Condition(0, 2, "1MiB"), pccl.Condition(1, 2, "1MiB")]
    algorithm = pccl.synthesize(pccl.topology.ring(4), pccl.Custom(conditions))
    lines = [line for _, line in commands(algorithm, None).listed]
    assert lines[0] == 'algorithm.save("algorithm.pccl")'
    assert not any("--format msccl" in line for line in lines)
    assert any("--format json" in line for line in lines)


def test_runtimes_are_not_tried_with_very_many_transfers():
    lines = [line for _, line in commands(pages.million(), "million.pccl").listed]
    assert not any("--format msccl" in line for line in lines)
    assert any("--format perfetto" in line for line in lines)


# --- one rule --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exclusive", [False, True])
def test_the_page_says_the_busy_share_that_everybody_says(tmp_path, exclusive):
    """With exclusive links, latency counts for all of them or for none."""
    ring = pccl.topology.ring(4, bandwidth="50GB/s", latency="5us", exclusive=exclusive)
    algorithm = pccl.synthesize(ring, pccl.AllGather("4MiB", chunks=2))
    algorithm.save(tmp_path / "a.pccl")
    pccl.report(algorithm, tmp_path / "a.html", baselines=False)
    text = Outline((tmp_path / "a.html").read_text(encoding="utf-8")).text
    document, columns = pages.contents(tmp_path / "a.html")
    simulated = pccl.simulate(algorithm).utilization
    assert np.allclose(columns["busy"], simulated)
    rows = document["intervals"]
    share = columns["share"].reshape(-1, rows).mean(axis=1) / 255
    assert np.allclose(share, simulated[columns["row_link"]], atol=0.003)
    assert np.isclose(columns["usage"].mean(), simulated.mean(), atol=1e-5)
    said = f"{simulated.mean():.1%}"
    assert f"Links busy{said}on average" in text
    assert f"{pccl.compare(algorithm, []).ours.links_busy:.1%}" == said
    assert f"links        {said} busy on average" in program("show", tmp_path / "a.pccl").stdout


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_program_writes_reports(tmp_path):
    file, out = tmp_path / "a.pccl", tmp_path / "report.html"
    pages.two_groups().save(file)
    said = program("report", file, "-o", out, "--baseline", "confined")
    assert said.exit_code == 0, said.output
    assert re.search(
        r"baselines +confined\nchunks shown all\npage +0\.\d\d MB\nwritten to", said.output
    )
    assert out.stat().st_size > 50_000
    assert (
        program(
            "report", file, "-o", out, "-q", "--no-baselines", "--no-bound", "--no-verify"
        ).output
        == ""
    )
    first = out.read_text(encoding="utf-8")
    assert "not verified" in first
    assert (
        program(
            "report", file, "-o", out, "-q", "--no-baselines", "--no-bound", "--no-verify"
        ).exit_code
        == 0
    )
    assert out.read_text(encoding="utf-8") == first


def test_the_program_refuses(tmp_path):
    file = tmp_path / "a.pccl"
    assert "a report is saved as .html" in refused("report", file, "-o", tmp_path / "report.pdf")
    assert "there is no folder" in refused("report", file, "-o", tmp_path / "no" / "report.html")
    both = refused(
        "report", file, "-o", tmp_path / "r.html", "--baseline", "ring", "--no-baselines"
    )
    assert "exclude each other" in both
    assert "a.pccl" in refused("report", file, "-o", tmp_path / "r.html")


def test_baselines_that_need_switches_say_so(tmp_path):
    able = pccl.topology.switch(4, multicast=True, reduce=True)
    plan = pccl.synthesize(able, pccl.AllReduce("1MiB", chunks=4), effort="fast")
    pccl.report(plan, tmp_path / "page.html", baselines=["nvls"])
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">needs switches that multiply and add<" in text
    assert "; needs switches that multiply and add<" in text
