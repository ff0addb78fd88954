"""The pages show what really happens: the output of every command, the spec files, and their Python."""

from __future__ import annotations

import doctest
import re

import pytest

from pccl.spec import load_spec
from tests import renew_docs
from tests.end_to_end.program import EXAMPLES

SPEC = (renew_docs.ROOT / "docs" / "spec.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", renew_docs.PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page):
    text = page.read_text(encoding="utf-8")
    with renew_docs.prepared_folder():
        for block in renew_docs.BLOCK.findall(text):
            for command, shown in renew_docs.commands(block):
                printed = renew_docs.run(command)
                assert renew_docs.masked(printed) == renew_docs.masked(shown), (
                    f"{page.name}: 'pccl ...' prints something else; run 'make docs'"
                )


def test_a_page_is_renewed_where_more_than_times_differ():
    right = renew_docs.renew("```console\n$ pccl topology ring:4\n```\n")
    assert "links        8" in right
    assert renew_docs.renew(right) == right
    assert renew_docs.renew(right.replace("links        8", "links        9")) == right


@pytest.mark.parametrize("block", ["pccl show a.pccl\n", "$ ls\n"])
def test_what_is_no_command_is_refused(block):
    with pytest.raises(ValueError, match=r"begins with a command|not 'ls'"):
        renew_docs.renew(f"```console\n{block}```\n")


def test_only_times_may_differ():
    line = "found by     fast: flooding, seed 0, in {} s (pccl 0.1.0)\n"
    assert renew_docs.masked(line.format("0.0555")) == renew_docs.masked(line.format("1e-05"))
    for one, other in [("29.80 us", "29.81 us"), ("112 transfers", "113 transfers")]:
        assert renew_docs.masked(one) != renew_docs.masked(other)


def yaml_blocks() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", SPEC, flags=re.MULTILINE | re.DOTALL)


def test_the_python_of_the_page_on_specs():
    example = doctest.DocTestParser().get_doctest(
        re.sub(r"^```.*$", "", SPEC, flags=re.MULTILINE), {}, "spec.md", "spec.md", 0
    )
    output: list[str] = []
    with renew_docs.prepared_folder():
        failed = doctest.DocTestRunner().run(example, out=output.append).failed
    assert failed == 0, "".join(output)
    assert len(example.examples) == 5


def test_the_files_of_the_page_on_specs(tmp_path):
    mix, parallelism, custom = yaml_blocks()
    assert mix == (EXAMPLES / "mix.yaml").read_text()
    assert parallelism == (EXAMPLES / "parallelism.yaml").read_text()
    path = tmp_path / "custom.yaml"
    path.write_text(custom)
    assert len(load_spec(path).collectives[0].pattern) == 2
