"""The box: namespaces of our own, in which a network is built and work is done, and which vanish with the work.

A child of ours is the first process of new namespaces for processes, mounts and networks. Whatever it makes is seen
only from inside. When it ends, for whatever reason, the kernel ends all others inside, and then nothing holds the
networks any longer: so there are no names to clean up, not even after ``kill -9``.
"""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from pccl.errors import PcclError
from pccl.lab.wiring import Wiring

_TOOLS = {
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "tc": "iproute2",
}
# Even if we are killed: the launcher dies then, with it the first process inside, and with that all others.
_DIE_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]
_NAMESPACES = ["--net", "--mount", "--pid", "--fork", "--kill-child"]
# As somebody else, a user may do inside what only root may do outside.
_AS_ROOT: list[list[str]] = [[], ["--user", "--map-root-user"]]


class UnavailableError(PcclError):
    """There can be no box on this machine; the text says why."""


def why_not() -> str | None:
    """Why there can be no box here; None if there can be."""
    try:
        _launcher()
    except UnavailableError as error:
        return str(error)
    return None


def in_box(
    wiring: Wiring, work: Callable[..., Any], *arguments: Any, timeout: float = 300.0
) -> Any:
    """Build the network, call `work` inside with the wiring and the arguments, and return what it returns.

    Parameters
    ----------
    wiring
        What to build.
    work
        A function that can be imported; it starts processes in namespaces of devices by itself.
    arguments
        Whatever it needs besides.
    timeout
        In seconds; then all of it is ended.
    """
    job = pickle.dumps((wiring, work, arguments))
    # A file and not a pipe, as nobody reads before the work is done.
    with tempfile.TemporaryFile() as answer:
        command = [*_launcher(), sys.executable, "-m", "pccl.lab", str(answer.fileno())]
        box = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            pass_fds=[answer.fileno()],
            # Ctrl-C is for us, and we end the box.
            start_new_session=True,
        )
        try:
            box.communicate(job, timeout)
        except subprocess.TimeoutExpired:
            raise PcclError(f"the work in the box took longer than {timeout:g} s") from None
        finally:
            box.kill()
            box.wait()
        answer.seek(0)
        said = answer.read()
    if not said:
        raise PcclError(f"the box ended without an answer (status {box.returncode})")
    result, error = pickle.loads(said)
    if error is not None:
        raise error
    return result


def _launcher() -> list[str]:
    """The command that starts another one in namespaces of its own."""
    if not sys.platform.startswith("linux"):
        raise UnavailableError("a box needs Linux, for its network namespaces")
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise UnavailableError(f"a box needs {tool!r}, of the package {package}")
    said = ""
    for how in _AS_ROOT:
        command = [*_DIE_WITH_PARENT, "unshare", *how, *_NAMESPACES]
        # What is allowed is found out by doing it: it depends on capabilities, kernels and security modules.
        tried = subprocess.run(
            [*command, "mount", "-t", "tmpfs", "none", "/run"],
            capture_output=True,
            text=True,
            check=False,
        )
        if not tried.returncode:
            return command
        said = tried.stderr.strip().splitlines()[-1]
    raise UnavailableError(f"a box needs root, or user namespaces, which are not allowed: {said}")
