"""What is done inside boxes by the tests."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

from pccl.errors import PcclError
from pccl.lab.namespaces import entered


def look(wiring, device):
    """The addresses, routes and rates of a device."""
    with entered(device):
        commands = (["ip", "address"], ["ip", "route"], ["tc", "qdisc"])
        return [subprocess.run(one, capture_output=True, text=True).stdout for one in commands]


def congestion_control(wiring, device):
    """How connections of a device find out how fast they may send."""
    with entered(device), socket.socket() as link:
        return link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def fail(wiring):
    raise PcclError("something is wrong inside")


def die(wiring):
    os._exit(3)


def sleep(wiring, path):
    """Say that it has begun, with two children that sleep as well, and go on for a long time."""
    for _ in range(2):
        subprocess.Popen(["sleep", "1000"])
    Path(path).touch()
    time.sleep(1000)


def answer(wiring, size):
    return bytes(size)
