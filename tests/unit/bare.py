"""Runs code in a process without threads, or on a system that is no Unix: ``python bare.py KIND CODE``.

``threads``: no thread can be started, as under a tight ``ulimit -u``. ``unix``: nor a process, and what only Unix has
is missing, as on WebAssembly. ``windows``: what only Unix has is missing, and nothing else. PyTorch, platformdirs,
psutil and Send2Trash choose by the name of the system and not by what it has, so they are imported before.
"""

import _posixsubprocess
import _thread
import errno
import os
import signal
import subprocess
import sys
import threading

import platformdirs.unix  # noqa: F401
import psutil  # noqa: F401
import send2trash  # noqa: F401
import torch.distributed.elastic.timer  # noqa: F401  (torchao imports it)

MODULES = "fcntl grp pty pwd readline resource syslog termios tty".split()  # noqa: SIM905
OF_OS = """
    fork forkpty register_at_fork getuid geteuid getgid getegid getpgid getpgrp killpg setsid setpgid
    sched_getaffinity sched_setaffinity statvfs mkfifo mknod sysconf getloadavg uname chown nice sync posix_spawn
    getxattr setxattr listxattr WNOHANG O_NONBLOCK
"""
OF_SIGNAL = """
    SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGPROF SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGVTALRM SIGWINCH
    setitimer pthread_sigmask alarm pause sigwait
"""


def no_thread(*_, **__):
    raise RuntimeError("can't start new thread")


def no_process(*_):
    raise OSError(errno.ENOTSUP, "processes are not supported")


def without_threads():
    _thread.start_new_thread = threading._start_new_thread = no_thread
    threading._start_joinable_thread = no_thread  # Python 3.13


def without_unix():
    without_threads()
    subprocess._fork_exec = _posixsubprocess.fork_exec = no_process
    subprocess._USE_POSIX_SPAWN = False
    as_on_windows()


def as_on_windows():
    sys.modules.update(dict.fromkeys(MODULES))
    for name in OF_SIGNAL.split():
        if member := signal.Signals.__members__.get(name):
            del signal.Signals._member_map_[name], signal.Signals._value2member_map_[member.value]
            signal.Signals._member_names_.remove(name)
    for holder, names in ((os, OF_OS), (signal, OF_SIGNAL)):
        for name in names.split():
            if hasattr(holder, name):
                delattr(holder, name)


if __name__ == "__main__":
    {"threads": without_threads, "unix": without_unix, "windows": as_on_windows}[sys.argv[1]]()
    exec(compile(sys.argv[2], "<code>", "exec"), {"__name__": "bare"})
