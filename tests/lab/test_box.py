"""Boxes: what is built in them, and that nothing is left of them, however they end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pccl
from pccl.lab import Wiring, box, in_box, why_not
from tests.lab import tasks

ROOT = Path(pccl.__file__).parents[2]
REASON = why_not()

pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture
def wiring():
    return Wiring.of(pccl.topology.line(3), rate="40mbit")


def processes(text):
    """Processes whose command line holds this text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text in path.read_bytes().replace(b"\0", b" ").decode():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_a_device_has_its_addresses_its_routes_and_its_rates(wiring):
    addresses, routes, rates = in_box(wiring, tasks.look, 0)
    assert wiring.home(0) in addresses
    assert wiring.home(1) not in addresses
    # What is for the far end goes by the middle one.
    assert f"{wiring.home(2)} via {wiring.near_address(0, 1)} dev w0" in routes
    assert "tbf" in rates


def test_connections_send_as_fast_as_links_take_it_whatever_the_machine_does_by_default(wiring):
    """With BBR, plans took up to 1.27 times as long as planned."""
    assert in_box(wiring, tasks.congestion_control, 0) == "reno"


def test_namespaces_are_seen_only_from_inside(wiring):
    before = set(Path("/run").iterdir())
    in_box(wiring, tasks.look, 0)
    assert set(Path("/run").iterdir()) == before
    assert not processes("pccl.lab")


def test_errors_inside_are_raised_outside(wiring):
    with pytest.raises(pccl.PcclError, match="something is wrong inside"):
        in_box(wiring, tasks.fail)
    with pytest.raises(pccl.PcclError, match="without an answer"):
        in_box(wiring, tasks.die)


def test_a_long_answer_comes_through(wiring):
    assert in_box(wiring, tasks.answer, 300_000) == bytes(300_000)


def test_work_that_takes_too_long_is_ended(wiring, tmp_path):
    with pytest.raises(pccl.PcclError, match="longer than 3 s"):
        in_box(wiring, tasks.sleep, str(tmp_path / "begun"), timeout=3)
    assert not processes(str(tmp_path))


@pytest.mark.parametrize("signal_", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_when_the_process_outside_is_ended(tmp_path, signal_):
    begun = tmp_path / "begun"
    code = (
        "import pccl, signal\n"
        "from pccl.lab import Wiring, in_box\n"
        "from tests.lab import tasks\n"
        # What a shell starts in the background ignores Ctrl-C.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"in_box(Wiring.of(pccl.topology.line(3), rate='1mbit'), tasks.sleep, {str(begun)!r})\n"
    )
    outside = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL, process_group=0
    )
    until(begun.exists)
    inside = children(outside.pid)
    assert len(inside) >= 4  # the launcher, the first process inside, and two that sleep
    outside.send_signal(signal_)
    outside.wait(120)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside))


def test_a_machine_without_the_means_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(box.shutil, "which", lambda name: None if name == "tc" else name)
    assert why_not() == "a box needs 'tc', of the package iproute2"


def test_a_machine_that_does_not_allow_it_says_so(monkeypatch):
    monkeypatch.setattr(box, "_AS_ROOT", [["--no-such-option"]])
    assert "root, or user namespaces, which are not allowed" in why_not()


def test_users_without_rights_have_user_namespaces(monkeypatch, wiring):
    """As root we need none; here they are asked for."""
    monkeypatch.setattr(box, "_AS_ROOT", [["--user", "--map-root-user"]])
    if why_not() is not None:
        pytest.skip(why_not())
    assert "tbf" in in_box(wiring, tasks.look, 0)[2]


def children(pid):
    """A process's descendants."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *children(child)]
    return found


def until(is_so):
    """Wait for something that happens soon."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)
