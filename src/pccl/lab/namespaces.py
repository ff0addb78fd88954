"""The network itself: namespaces, veth pairs, rates and routes, made with `ip` and `tc`.

All this runs inside the box, where names and addresses are nobody else's; see :mod:`pccl.lab.box`.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pccl.errors import PcclError
from pccl.lab.wiring import ETHERNET_HEADER, PACKET, Wiring

_NET = 0x40000000  # CLONE_NEWNET of <sched.h>
_NAMES = Path("/run/netns")
# The interface with the address that everybody has a route to.
HOME = "home"
# A router passes on what is not for it, and does not mind by which wire it came.
_SETTINGS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    # What was learnt about one connection must not slow the next one down, nor should an idle one start anew.
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_slow_start_after_idle": "0",
    # BBR, the default of some machines, sends at times less than a link takes, to see whether queues get shorter.
    "net/ipv4/tcp_congestion_control": "reno",
}
# For how many seconds a link that was late may be faster, besides a packet: less than a timer may be late, and the rest
# of its time is lost; more, and a short message after a pause costs nothing.
_LATE = 0.002
# How many bytes wait at a link before packets are lost; senders are stopped long before, by their buffers.
_QUEUE = 32 * 2**20


def build(wiring: Wiring) -> None:
    """Make all namespaces and wires, and set rates and routes."""
    _ip(f"netns add {_name(device)}" for device in wiring.devices)
    _ip(
        f"link add w{number} mtu {PACKET} netns {_name(first)} type veth "
        f"peer name w{number} mtu {PACKET} netns {_name(second)}"
        for number, (first, second) in enumerate(wire.devices for wire in wiring.wires)
    )
    for device in wiring.devices:
        with entered(device):
            for name, value in _SETTINGS.items():
                _set(name, value)
            _ip(_settle(wiring, device))
            _run("tc", _shape(wiring, device))


@contextmanager
def entered(device: int) -> Iterator[None]:
    """Be in the namespace of a device for a while; processes that are started now stay there."""
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        enter(device)
        yield
        _set_namespace(here)
    finally:
        os.close(here)


def enter(device: int) -> None:
    """Go to the namespace of a device for good."""
    there = os.open(_NAMES / _name(device), os.O_RDONLY)
    try:
        _set_namespace(there)
    finally:
        os.close(there)


def shell_command(device: int) -> str:
    """What, in front of a command of a shell, runs it in the namespace of a device."""
    return f"nsenter --net={_NAMES / _name(device)}"


def _set_namespace(file: int) -> None:
    # Python has os.setns from 3.12 on.
    if ctypes.CDLL(None, use_errno=True).setns(file, _NET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _name(device: int) -> str:
    return f"device{device}"


def _settle(wiring: Wiring, device: int) -> Iterator[str]:
    """The addresses of a device, and its routes to all homes."""
    yield "link set lo up"
    # An interface of its own, so that programs can be told to use it. What joins it to itself is never used, but some
    # programs use no interface that is joined to nothing.
    yield f"link add {HOME} type veth peer name inside"
    yield f"link set {HOME} up"
    yield "link set inside up"
    yield f"address add {wiring.home(device)}/32 dev {HOME}"
    for number, wire in enumerate(wiring.wires):
        for end in (0, 1):
            if wire.devices[end] == device:
                yield f"link set w{number} up"
                # With the address of the other end it is a wire between two, without a network around it.
                ours = wiring.end_address(number, end)
                theirs = wiring.end_address(number, 1 - end)
                yield f"address add {ours} peer {theirs}/32 dev w{number}"
    npus = wiring.topology.npus.tolist()
    for target, link in zip(npus, wiring.towards[:, device].tolist(), strict=True):
        if target == device or link < 0:
            continue
        number, end = wiring.wire_of[link]
        gateway = wiring.end_address(number, 1 - end)
        home = wiring.home(device)
        yield f"route add {wiring.home(target)}/32 via {gateway} dev w{number} src {home} onlink"


def _shape(wiring: Wiring, device: int) -> Iterator[str]:
    """How fast a device may send over each of its links."""
    for number, wire in enumerate(wiring.wires):
        for end in (0, 1):
            # A direction without a link carries nothing but what acknowledges the other.
            if wire.devices[end] == device and wire.links[end]:
                rate = wiring.wire_rate(number, end)
                bucket = PACKET + ETHERNET_HEADER + round(rate / 8 * _LATE)
                how = f"rate {rate}bit burst {bucket} limit {_QUEUE}"
                yield f"qdisc add dev w{number} root tbf {how}"


def _set(name: str, value: str) -> None:
    path = Path("/proc/sys") / name
    try:
        path.write_text(value)
    except OSError as error:
        raise PcclError(f"the box cannot set {path}: {error.strerror}") from None


def _ip(commands: Iterable[str]) -> None:
    _run("ip", commands)


def _run(program: str, commands: Iterable[str]) -> None:
    """Have one process carry out many commands."""
    text = "\n".join(commands)
    done = subprocess.run(
        [program, "-batch", "-"], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PcclError(f"the box cannot be built: {program}: {done.stderr.strip()}")
