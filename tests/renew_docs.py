"""What the pages show of the command line: ``python -m tests.renew_docs`` writes it anew, and a test compares it.

In a block that is fenced as ``console``, every line that begins with ``$ pccl`` is a command, and what follows it is
what the command prints. The commands of a page run one after another in one folder.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import pccl
from pccl.cli import main as program
from tests.end_to_end.program import untold

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for page in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")))
    if "```console" in page.read_text(encoding="utf-8")
]
BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```)", flags=re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ", flags=re.MULTILINE)
# What differs between machines and runs, and nothing else: for how long a search took.
VARIES = re.compile(r"(?<= in )[\d.e-]+(?= s \(pccl)|(?<=\"seconds\": )[\d.e-]+")
# And for how long a plan ran, with the bandwidths that follow; columns are as wide as these figures.
RAN = re.compile(
    r"^(.* (?:sum|prod|max|min|avg|none) +[\d.,]+)(?: +[\d.,]+){3}( +[\d,]+)$", re.MULTILINE
)
HEADER = re.compile(r"^.* #wrong$", re.MULTILINE)


def main() -> None:
    """Write all pages anew."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        renewed = renew(text)
        if renewed != text:
            page.write_text(renewed, encoding="utf-8", newline="\n")
            print("renewed", page.relative_to(ROOT))


def renew(text: str) -> str:
    """Return a page with what its commands print now; where nothing but times differs, it stays as it is."""
    with prepared_folder():
        return BLOCK.sub(lambda block: _renew_block(block[0]), text)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Every command of a block, with the output that follows it."""
    before, *parts = COMMAND.split(block)
    if before:
        raise ValueError(f"a console block begins with a command, not with {before!r}")
    for part in parts:
        command, _, output = part.partition("\n")
        yield command, output


def run(command: str) -> str:
    """What a command prints."""
    name, *arguments = shlex.split(command)
    if name != "pccl":
        raise ValueError(f"pages show pccl at work, not {name!r}")
    with untold():
        output = CliRunner().invoke(program, arguments, prog_name="pccl").output
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def masked(text: str) -> str:
    """The text without what differs between machines and runs."""
    ran = RAN.sub(lambda row: " ".join(f"{row[1]} ... {row[2]}".split()), text)
    return VARIES.sub("...", HEADER.sub(lambda row: " ".join(row[0].split()), ran))


def _renew_block(block: str) -> str:
    shown = []
    for command, output in commands(block):
        printed = run(command)
        if masked(printed) == masked(output):
            printed = output
        shown.append(f"$ {command}\n{printed}")
    return "".join(shown)


@contextlib.contextmanager
def prepared_folder() -> Iterator[None]:
    """Work in a folder of its own, with the examples, and the wrong files that pages mention."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("examples").symlink_to(ROOT / "examples")
        Path("wrong.yaml").write_text(
            "topology: ring:4\ncollectives: [{kind: all-gather, sise: 4MiB}]"
        )
        good = pccl.synthesize(pccl.topology.ring(4), pccl.AllGather("4MiB", chunks=1))
        chunk, link = good.transfers.chunk, good.transfers.link
        all_at_once = np.zeros_like(good.transfers.start)
        wrong = pccl.Algorithm.build(good.topology, good.collectives, chunk, link, all_at_once)
        wrong.save("wrong.pccl")
        yield


if __name__ == "__main__":
    main()
