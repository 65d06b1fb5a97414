"""A real SLURM of two nodes on this machine, for as long as somebody listens.

`python -m tests.scale.cluster FOLDER` starts munged, slurmctld and two slurmd, with all their files in FOLDER, prints
"ready", and ends them and every process of their jobs as soon as its standard input closes: so nothing is left even
where the test that started it is killed. Each node is named by an address of the loopback network, so that its name can
be resolved without telling the machine about it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

NODES = ("127.0.0.1", "127.0.0.2")
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "sinfo", "squeue")
START = 40.0  # seconds that the daemons may take
# One cluster at a time: two on one machine have the same nodes and job numbers, and take too long side by side.
ALONE = Path(tempfile.gettempdir()) / "snnkit-slurm-cluster.lock"
GPUS = 4  # of each node, which are files: enough for scripts to be accepted

CONFIGURATION = """\
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# cred_expire is also how long a requeued job waits; 120 s if not given.
AuthInfo=socket={folder}/munge.socket,cred_expire=5
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2
SlurmdParameters=config_overrides
MpiDefault=none
JobRequeue=1
ReturnToService=2
KillWait=5
MailProg=/bin/true
StateSaveLocation={folder}/state
SlurmdSpoolDir={spool}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
GresTypes=gpu
{nodes}
PartitionName=test Nodes=ALL Default=YES OverSubscribe=YES MaxTime=INFINITE
"""


class CannotStart(RuntimeError):
    """Why there is no SLURM here."""


def _path() -> str:
    """Where daemons are, which the PATH of a user leaves out."""
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])


def missing() -> str | None:
    """Why this machine can't start a SLURM, as far as can be told without trying."""
    if sys.platform != "linux":
        return "SLURM needs Linux"
    absent = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (Debian: apt-get install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "only root may start jobs for SLURM"
    return None


@contextlib.contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """A cluster while the block runs; gives the environment in which sbatch, squeue and scontrol find it.

    Raises CannotStart with the reason.
    """
    if reason := missing():
        raise CannotStart(reason)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [sys.executable, "-m", "tests.scale.cluster", str(folder)]
    supervisor = subprocess.Popen(command, cwd=Path(__file__).parents[2], text=True, **pipes)
    assert supervisor.stdin is not None and supervisor.stdout is not None
    try:
        said = []
        for line in supervisor.stdout:
            said.append(line)
            if line == "ready\n":
                break
        else:
            raise CannotStart("".join(said).strip() or "the daemons ended")
        yield os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
    finally:
        supervisor.stdin.close()
        supervisor.wait()


def _configure(folder: Path) -> None:
    (folder / "state").mkdir(parents=True)
    # There are sockets in it, whose paths must not be longer than 107 characters; those of pytest's folders are.
    spool = Path(tempfile.mkdtemp(prefix="slurm"))
    (folder / "spool").symlink_to(spool)
    for node in NODES:
        (spool / node).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    controller, *ports = _free_ports(1 + len(NODES))
    lines = [
        f"NodeName={node} NodeHostname=localhost NodeAddr={node} Port={port} CPUs=4 RealMemory=2000 Gres=gpu:{GPUS}"
        for node, port in zip(NODES, ports, strict=True)
    ]
    text = CONFIGURATION.format(folder=folder, spool=spool, controller=controller, nodes="\n".join(lines))
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    for number in range(GPUS):
        (folder / f"gpu{number}").touch()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


def _daemons(folder: Path) -> list[list[str]]:
    files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
    munge = [f"--{option}={folder}/munge.{suffix}" for option, suffix in files.items()]
    return [
        ["munged", "--foreground", "--force", *munge],
        ["slurmctld", "-D", "-f", f"{folder}/slurm.conf"],
        *(["slurmd", "-D", "-N", node, "-f", f"{folder}/slurm.conf"] for node in NODES),
    ]


def _start(folder: Path, daemons: list[subprocess.Popen[bytes]]) -> None:
    """Start the daemons one after another, and wait until the nodes are idle."""
    _configure(folder)
    env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
    deadline = time.monotonic() + START
    for command in _daemons(folder):
        output = (folder / f"{command[0]}.out").open("ab")
        daemons.append(subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output))
        output.close()
        if command[0] == "munged":
            _await((folder / "munge.socket").exists, "munged made no socket", daemons, folder, deadline)

    def idle() -> bool:
        asked = subprocess.run(
            ["sinfo", "-h", "-N", "-o", "%t"], env=env, capture_output=True, text=True, timeout=START
        )
        return asked.stdout.split() == ["idle"] * len(NODES)

    _await(idle, "the nodes do not become idle", daemons, folder, deadline)


def _await(
    true: Callable[[], bool], what: str, daemons: list[subprocess.Popen[bytes]], folder: Path, deadline: float
) -> None:
    while not true():
        ended = [daemon.args[0] for daemon in daemons if daemon.poll() is not None]  # type: ignore[index]
        if ended or time.monotonic() > deadline:
            reason = f"{', '.join(ended)} ended" if ended else what
            logs = {path.name: path.read_text(errors="replace").splitlines()[-5:] for path in folder.glob("*.out")}
            raise CannotStart(
                f"{reason}\n" + "\n".join(f"{name}: {line}" for name, log in logs.items() for line in log)
            )
        time.sleep(0.1)


def _stop(folder: Path, daemons: list[subprocess.Popen[bytes]]) -> None:
    """End the daemons, then what they have started: every process that was told of this cluster."""
    for daemon in reversed(daemons):
        daemon.terminate()
    for daemon in daemons:
        try:
            daemon.wait(5)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    shutil.rmtree((folder / "spool").resolve(), ignore_errors=True)
    for _ in range(50):
        left = told(folder)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.1)


def told(folder: Path) -> list[int]:
    """Processes whose SLURM_CONF is that of this cluster: steps, tasks, and what those have started."""
    mark = f"SLURM_CONF={folder / 'slurm.conf'}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if int(path.parent.name) != os.getpid() and mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def command(pid: int) -> bytes:
    """The command line of a process; nothing where it is gone."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def main(folder: Path) -> None:
    daemons: list[subprocess.Popen[bytes]] = []
    alone = os.open(ALONE, os.O_CREAT | os.O_RDWR)  # until this process ends, however it does
    fcntl.flock(alone, fcntl.LOCK_EX)
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda *_: sys.exit(1))
    try:
        _start(folder, daemons)
        print("ready", flush=True)
        sys.stdin.read()
    except CannotStart as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        pass
    finally:
        _stop(folder, daemons)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
