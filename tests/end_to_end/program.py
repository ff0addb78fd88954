"""How the tests run the program: mostly in this process, which is fast, sometimes in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from click.testing import CliRunner, Result

from pccl.cli import main, progress

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAM = [sys.executable, "-m", "pccl.cli"]


def pccl(*arguments: object) -> Result:
    """Run the program in this process; stdout and stderr are kept apart."""
    with untold():
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert "\x1b" not in result.output
    assert "Traceback" not in result.output
    return result


def untold() -> AbstractContextManager[object]:
    """Without the lines that a long command prints now and then: on a busy machine any command may be long."""
    return mock.patch.object(progress, "_lines", return_value=nullcontext())


def spawn(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, **options
    )


def refused(*arguments: object, status: int = 2) -> str:
    """Run the program, which must end with this status and one line; return the line without its beginning."""
    result = pccl(*arguments)
    assert (result.exit_code, result.stdout) == (status, ""), result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.endswith("\n")
    return result.stderr.removeprefix("error: ").rstrip("\n")


class Terminal:
    """The program on a pseudo-terminal, so that it draws what people see."""

    def __init__(self, *arguments: object, **environment: str) -> None:
        self.master, slave = os.openpty()
        self.process = subprocess.Popen(
            [*PROGRAM, *map(str, arguments)], stdin=slave, stdout=slave, stderr=slave,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "110", **environment},
        )  # fmt: skip
        os.close(slave)
        self.text = ""

    def read(self, until: str | None = None) -> str:
        """What has been drawn, up to some text or to the end."""
        while until is None or until not in self.text:
            try:
                data = os.read(self.master, 65536)
            except OSError:  # how Linux says that the other end is closed
                data = b""
            if not data:
                break
            self.text += data.decode(errors="replace")
        return self.text

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
