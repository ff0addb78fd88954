"""Programs of others inside the box: a command for every NPU, as torchrun or mpiexec start it on as many hosts."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from pccl.lab.namespaces import HOME, entered, shell_command
from pccl.lab.wiring import Wiring
from pccl.runtime.launcher import find_mpiexec

# Where commands meet, and how often they are looked after.
_PORT = 29_500
_GLANCE = 0.05
# What mpiexec takes for ssh; known only inside, where this folder is ours.
_REMOTE_SHELL = Path("/run/remote-shell")
# MPICH is to use the network, though all ranks are on one machine, and this interface of it.
_MPICH = {"MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": HOME}


def run_commands(wiring: Wiring, words: Sequence[str]) -> int:
    """Run a command for every NPU, each in its namespace, and return the first status that is not 0.

    One that fails ends all.
    """
    npus = wiring.topology.npus.tolist()
    started = []
    for rank, npu in enumerate(npus):
        about = {
            "RANK": rank,
            "WORLD_SIZE": len(npus),
            "LOCAL_RANK": 0,
            "MASTER_ADDR": wiring.home(npus[0]),
            "MASTER_PORT": _PORT,
            "GLOO_SOCKET_IFNAME": HOME,
        }
        environment = os.environ | {name: str(value) for name, value in about.items()}
        with entered(npu):
            started.append(subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL))
    while None in (statuses := [process.poll() for process in started]):
        if any(statuses):
            # Those that are left would wait for it; they end with the box.
            break
        time.sleep(_GLANCE)
    return next((status for status in statuses if status), 0)


def run_under_mpi(wiring: Wiring, words: Sequence[str]) -> int:
    """Run a command as one rank of MPI for every NPU, each in its namespace, and return the status of mpiexec.

    To MPICH every home is a host, reached by a shell of ours that goes to its namespace.
    """
    npus = wiring.topology.npus.tolist()
    cases = [f'{wiring.home(npu)}) exec {shell_command(npu)} sh -c "$*" ;;' for npu in npus]
    script = ["#!/bin/sh", 'test "$1" = -x && shift', "host=$1", "shift", "case $host in", *cases]
    _REMOTE_SHELL.write_text("\n".join([*script, "esac", ""]))
    _REMOTE_SHELL.chmod(0o755)
    how = ["-launcher", "ssh", "-launcher-exec", str(_REMOTE_SHELL), "-iface", HOME]
    hosts = ["-hosts", ",".join(wiring.home(npu) for npu in npus), "-n", str(len(npus))]
    with entered(npus[0]):
        return subprocess.run(
            [find_mpiexec(), *how, *hosts, *words],
            env=os.environ | _MPICH,
            stdin=subprocess.DEVNULL,
            check=False,
        ).returncode
