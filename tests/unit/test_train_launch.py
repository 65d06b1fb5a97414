"""Launching ranks: places, lines, failures, time limits, and nothing left behind. The ranks here import nothing."""

import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from snnkit.train.launch import LaunchError, check_port, free_port, launch

LIMIT = 60.0  # seconds, where only a hang would take so long
ECHO = (
    'import os; print(*(os.environ[n] for n in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK")))'
)


def python(code):
    return [sys.executable, "-S", "-c", code]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid):
    until = time.monotonic() + LIMIT
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def test_each_rank_finds_its_place():
    done = launch(python(ECHO), 3)
    assert done.outputs == [[f"{rank} {rank} 3 3 0"] for rank in range(3)]
    assert done.attempts == 1 and done.seconds > 0


def test_ranks_meet_where_torch_looks_for_it():
    code = 'import os; print(os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], os.environ["TORCHELASTIC_RUN_ID"])'
    done = launch(python(code), 2)
    (first,), (second,) = done.outputs
    assert first == second and first.split()[:2] == ["127.0.0.1", str(done.port)]
    port = free_port()
    assert launch(python(code), 1, port=port).outputs[0][0].split()[1] == str(port)


def test_environment_and_threads(monkeypatch):
    code = 'import os; print(os.environ.get("OMP_NUM_THREADS"), os.environ.get("OURS"))'
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert launch(python(code), 2, env={"OURS": "1"}).outputs == [["1 1"], ["1 1"]]
    assert launch(python(code), 1).outputs == [["None None"]]
    assert launch(python(code), 2, env={"OMP_NUM_THREADS": "3"}).outputs == [["3 None"], ["3 None"]]


def test_lines_come_as_they_are_printed():
    seen = []
    code = 'import sys; print("one"); print("two", file=sys.stderr); print("bar\\rbar 2"); print("ä", end="")'
    done = launch(python(code), 2, on_line=lambda rank, line: seen.append((rank, line)))
    assert done.outputs == [["one", "two", "bar 2", "ä"]] * 2
    assert [line for rank, line in seen if rank == 1] == done.outputs[1]


def test_much_output_does_not_block():
    done = launch(python('for i in range(20000): print("x" * 50)'), 2)
    assert [len(lines) for lines in done.outputs] == [20000, 20000]


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("sys.exit(3)", 3, "rank 1 of 3 failed with exit code 3"),
        ("os.kill(os.getpid(), 9)", -9, r"rank 1 of 3 was ended by SIGKILL \(signal 9\)"),
        (
            'raise ValueError("planted")',
            1,
            r"(?s)rank 1 of 3 failed with exit code 1 .*Last lines.*ValueError: planted",
        ),
    ],
)
def test_one_that_fails_ends_all(how, code, says):
    body = f'import os, sys, time; rank = os.environ["RANK"]; print(os.getpid(), flush=True)\nif rank == "1": {how}\n'
    with pytest.raises(LaunchError, match=says) as caught:
        launch(python(body + "time.sleep(1000)"), 3)
    error = caught.value
    assert (error.rank, error.code) == (1, code) and "the others were ended" in str(error)
    assert not any(alive(int(lines[0])) for lines in error.outputs if lines)


def test_a_bystander_is_not_blamed():
    code = 'import os, sys, time; r = os.environ["RANK"]; time.sleep(0.1 * (r == "1")); sys.exit(76 if r == "0" else 5)'
    with pytest.raises(LaunchError, match="rank 1 of 2 failed with exit code 5"):
        launch(python(code), 2)


def test_those_that_ignore_sigterm_are_killed_with_their_children():
    code = (
        'import os, signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN); r = os.environ["RANK"]\n'
        'child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"])\n'
        "print(child.pid, os.getpid(), flush=True); time.sleep(0.5 if r == '1' else 1000); sys.exit(2)"
    )
    with pytest.raises(LaunchError) as caught:
        launch(python(code), 2, grace=0.3)
    assert all(gone(int(pid)) for lines in caught.value.outputs for pid in lines[0].split())


def test_a_limit_of_time():
    with pytest.raises(LaunchError, match=r"did not end within timeout=0.5 s.*\n?.*Last lines of rank 0") as caught:
        launch(python("import os, time; print(os.getpid(), flush=True); time.sleep(1000)"), 2, timeout=0.5)
    assert caught.value.rank is None and caught.value.code is None
    assert all(gone(int(lines[0])) for lines in caught.value.outputs)


def test_restarts(tmp_path):
    body = (
        'import os, sys; from pathlib import Path; file = Path(sys.argv[1]) / os.environ["RANK"]\n'
        "n = len(file.read_text()) if file.exists() else 0; file.write_text('x' * (n + 1)); print(n)\n"
        'sys.exit(n < 2 and os.environ["RANK"] == "1")'
    )
    done = launch([*python(body), tmp_path], 2, restarts=2)
    assert done.attempts == 3 and done.outputs[1] == ["2"]
    (tmp_path / "1").unlink()
    with pytest.raises(LaunchError, match="exit code 1"):
        launch([*python(body), tmp_path], 2, restarts=1)


SLEEPERS = (
    "import sys; from snnkit.train.launch import launch\n"
    "launch([sys.executable, '-S', '-c', 'import os, time; print(os.getpid(), flush=True); time.sleep(1000)'], 2,"
    " grace=1, on_line=lambda rank, line: print(line, flush=True))"
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ranks_end_with_their_launcher(number):
    launcher = subprocess.Popen([sys.executable, "-c", SLEEPERS], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    ranks = [int(launcher.stdout.readline()) for _ in range(2)]
    assert all(map(alive, ranks))
    launcher.send_signal(number)
    assert all(map(gone, ranks))
    assert launcher.wait(LIMIT) == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: -2}[number]
    launcher.stdout.close()


def test_a_port_in_use_is_refused():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"port {port} can't be used: .*take another one, or None for any"):
            launch(python("print(1)"), 1, port=port)
    check_port(port)


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        (("python x.py", 2), TypeError, "command must be a list of words"),
        (([], 2), ValueError, "command must name a program"),
        ((["python", 3], 2), TypeError, "command must be a list of texts and paths; got 3"),
        ((["python"], 0), ValueError, "processes must be at least 1; got 0"),
        ((["python"], 1.5), TypeError, "processes must be an int"),
    ],
)
def test_bad_arguments(arguments, kind, says):
    with pytest.raises(kind, match=says):
        launch(*arguments)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"timeout": 0}, ValueError, "timeout must be a finite number of seconds above 0; got 0"),
        ({"timeout": "soon"}, TypeError, "timeout must be a number"),
        ({"restarts": -1}, ValueError, "restarts must be an int of at least 0; got -1"),
        ({"port": 70000}, ValueError, "port must lie in 1 .. 65535; got 70000"),
        ({"port": "80"}, TypeError, "port must be an int"),
        ({"grace": float("inf")}, ValueError, "grace must be a finite number"),
    ],
)
def test_bad_options(options, kind, says):
    with pytest.raises(kind, match=says):
        launch(python("print(1)"), 1, **options)


def test_a_program_that_is_not_there():
    with pytest.raises(OSError, match="no-such-program"):
        launch(["no-such-program"], 2)


def test_works_beside_the_main_thread():
    results = []
    thread = threading.Thread(target=lambda: results.append(launch(python("print(7)"), 2)))
    thread.start()
    thread.join(LIMIT)
    assert results[0].outputs == [["7"], ["7"]]
