"""The site: it is built without a warning, needs nothing from elsewhere, and its reference is what the code says."""

from __future__ import annotations

import doctest
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import pccl
from pccl.cli import main

ROOT = Path(__file__).parents[1]
PAGES = runpy.run_path(str(ROOT / "docs" / "reference.py"))["pages"]()


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--config-file",
        str(root / "mkdocs.yml"),
        "--site-dir",
        str(site),
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stdout + done.stderr
    return folder


def test_every_page_is_built(site):
    built = {page.stem for page in site.glob("*.html")}
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= built
    assert not list(site.rglob("*.py"))


def test_pages_load_nothing_from_elsewhere(site):
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(
            r"<(?:script|img|iframe)[^>]* src=\"([^\"]*)|<link[^>]* href=\"([^\"]*)", text
        )
        assert loaded
        assert not [
            address for pair in loaded for address in pair if re.match(r"https?:|//", address)
        ], page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(
            r"url\(['\"]?(https?:|//)|@import", sheet.read_text(encoding="utf-8")
        ), sheet.name


def test_lists_and_tables_are_shown_as_such(site):
    # The site's Markdown wants an empty line before them, which other readers do without.
    for page in site.glob("*.html"):
        for paragraph in re.findall(
            r"<p>(.*?)</p>", page.read_text(encoding="utf-8"), flags=re.DOTALL
        ):
            assert not re.search(r"^(- |\* |\d+\. |\||```|#)", paragraph, flags=re.MULTILINE), (
                page.name,
                paragraph,
            )


def test_what_is_wrong_with_pages_ends_the_build(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "docs" / "orphan.md").write_text("# Orphan\n")
    with (tmp_path / "docs" / "format.md").open("a") as page:
        page.write(
            "\n[nowhere](nowhere.md), [no place](traces.md#nowhere), ![nothing](images/nothing.svg)\n"
        )
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    for what in ("orphan.md", "'nowhere.md'", "'traces.md#nowhere'", "'images/nothing.svg'"):
        assert re.search(
            rf"WARNING.*{re.escape(what)}|^ *- {re.escape(what)}", done.stderr, flags=re.MULTILINE
        ), what


@pytest.mark.parametrize("name", PAGES)
def test_reference_is_up_to_date(name):
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name], "run 'make docs'"


def test_reference_has_every_public_name():
    named = {name for name in pccl.__all__ if f"## pccl.{name}\n" in PAGES["reference-api.md"]}
    assert named == set(pccl.__all__)


def every_command(path, command):
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from every_command(f"{path} {name}", command.get_command(context, name))


def test_reference_has_every_command_and_option():
    sections = re.split(r"^## ", PAGES["reference-cli.md"], flags=re.MULTILINE)[1:]
    by_title = {section.partition("\n")[0]: section for section in sections}
    commands = dict(every_command("pccl", main))
    assert set(by_title) == set(commands)
    for path, command in commands.items():
        options = [option for option in command.params if isinstance(option, click.Option)]
        flags = [flag for option in options for flag in option.opts]
        assert not [flag for flag in flags if f"`{flag}`" not in by_title[path]]


def test_reference_says_nothing_of_this_machine():
    for text in PAGES.values():
        assert not re.search(r"0x[0-9a-f]{6}|" + re.escape(str(ROOT)), text)


def examples_of_reference() -> list[tuple[str, str]]:
    """Every entry of the reference that has examples: its title, and the examples."""
    sections = re.split(r"^#{2,4} ", PAGES["reference-api.md"], flags=re.MULTILINE)
    found = []
    for section in sections:
        blocks = re.findall(r"^```python\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
        if blocks:
            found.append((section.partition("\n")[0], "\n".join(blocks)))
    return found


def test_examples_of_the_reference_need_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = examples_of_reference()
    assert len(examples) > 50
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for title, text in examples:
        output: list[str] = []
        runner.run(
            doctest.DocTestParser().get_doctest(text, {}, title, None, None), out=output.append
        )
        assert not output, "".join(output)
