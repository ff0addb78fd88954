"""The first process in the box: builds the network, does the work, and answers over the file that it is given."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

from pccl.errors import PcclError
from pccl.lab.namespaces import build


def main() -> None:
    """Do what is asked for on standard input."""
    # A mount of our own, so that names of namespaces are ours too.
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    Path("/run/netns").mkdir()
    # And so are temporary files, which nobody removes who is ended with the box.
    tempfile.tempdir = "/run"
    # Processes inside have other numbers; where the old list has to do, it only looks strange.
    subprocess.run(["mount", "-t", "proc", "proc", "/proc"], capture_output=True, check=False)
    wiring, work, arguments = pickle.load(sys.stdin.buffer)
    result = None
    problem = None
    try:
        build(wiring)
        result = work(wiring, *arguments)
    except (PcclError, OSError) as error:
        problem = error
    with os.fdopen(int(sys.argv[1]), "wb") as answer:
        pickle.dump((result, problem), answer)


if __name__ == "__main__":
    main()
