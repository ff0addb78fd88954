"""The page "Run it in your job": its scripts and what is typed into a shell; the rest is tested as on all pages."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import renew_docs

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "run.md").read_text(encoding="utf-8")
BLOCKS = dict.fromkeys(re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with what the page has made before, the scripts that it shows, and the programs that it runs."""
    found = tmp_path_factory.mktemp("job")
    (found / "examples").symlink_to(ROOT / "examples")
    for script in re.findall(r"^```py\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL):
        name = script.splitlines()[0].removeprefix("# ")
        (found / name).write_text(script)
    with contextlib.chdir(found):
        names: dict[str, object] = {}
        for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL):
            exec(compile(block, "run.md", "exec"), names)
        for command in re.findall(r"^\$ (pccl synthesize .*)$", PAGE, flags=re.MULTILINE):
            assert renew_docs.run(command) == ""
    # As they are installed, whatever the folder of the interpreter is.
    programs = {"pccl": "-m pccl.cli", "torchrun": "-m torch.distributed.run"}
    for name, module in programs.items():
        program = found / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        program.chmod(0o755)
    return found


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[-1][:40])
def test_what_is_typed_into_a_shell_works(block, folder):
    pytest.importorskip("torch")
    environment = os.environ | {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["sh", "-ec", block],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "goes to the backend inside: PCCL_PLANS" not in done.stderr


def test_the_page_has_what_is_tested():
    assert len(BLOCKS) == 3
    assert sum("torchrun" in block for block in BLOCKS) == 3
