"""Runs that end early: Ctrl-C, a stop from another thread; and the lock that others need meanwhile."""

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from alarm import raises_after

import narrows

# Minutes of work.
LONG = narrows.Scenario(
    name="long",
    rate="100mbit",
    rtt="20ms",
    duration="10h",
    discipline="fifo:100",
    traffic=[narrows.Long(flows=20)],
)


def test_ctrl_c_ends_a_run(tmp_path):
    """In a process of its own, as a terminal would do it. A fraction of a second, says docs/how-to/python.md:
    `python/bench/waits.py` prints it, and many times that fails here.
    """
    (tmp_path / "long.toml").write_text(LONG.to_toml())
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import sys, time, narrows
            print("begun", flush=True)
            try:
                narrows.run("long.toml", seed=1)
            except KeyboardInterrupt:
                print("interrupted", flush=True)
        """)
    )
    with subprocess.Popen([sys.executable, script], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        # The run would take minutes: ending at all is the proof, and the bound is wide for busy machines.
        told, _ = process.communicate(timeout=30)
    assert told == "interrupted\n"
    assert process.returncode == 0


def test_what_a_handler_raises_comes_out():
    class Asked(Exception):
        pass

    with raises_after(0.2, Asked), pytest.raises(Asked):
        narrows.run(LONG, 1)


def test_a_handler_that_raises_nothing_lets_the_run_go_on():
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    try:
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        short = narrows.Scenario.from_toml(LONG.to_toml())
        short.duration = "20s"
        assert narrows.run(short, 1) is not None
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == [1]


def test_other_threads_go_on():
    """This thread never waits for a large part of a run: with the lock held, it would for all of it."""
    short, took = dataclasses.replace(LONG, duration="100s"), []

    def run():
        begun = time.perf_counter()
        narrows.run(short, 1)
        took.append(time.perf_counter() - begun)

    thread = threading.Thread(target=run)
    last, longest = time.perf_counter(), 0.0
    thread.start()
    while thread.is_alive():
        now = time.perf_counter()
        last, longest = now, max(longest, now - last)
    assert longest < took[0] / 2


def test_another_thread_can_stop_it():
    stop, ended = narrows.Stop(), []
    thread = threading.Thread(target=lambda: ended.append(narrows.run(LONG, 1, stop=stop)))
    thread.start()
    time.sleep(0.2)
    assert thread.is_alive() and not stop.is_set()
    stop.set()
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert ended == [None]
