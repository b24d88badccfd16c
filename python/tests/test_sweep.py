"""Sweeps: those of bare runs, on every kind of worker, nothing done twice, Ctrl-C."""

import dataclasses
import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy
import pytest
import xarray
from few import FEW, OVER, SEEDS, files

import narrows
from narrows.sweeps.batches import Batches
from narrows.sweeps.grid import Grid
from narrows.sweeps.store import Finished, Store
from narrows.sweeps.work import Run, work


def test_a_serial_sweep_is_the_bare_runs(serial):
    assert dict(serial.sizes) == {"discipline": 2, "traffic.0.flows": 3, "seed": 4}
    assert serial["discipline"].values.tolist() == OVER["discipline"]
    assert serial["traffic.0.flows"].values.tolist() == OVER["traffic.0.flows"]
    for where in ({"discipline": "fifo:30", "traffic.0.flows": 5}, {"discipline": "taq", "traffic.0.flows": 20}):
        bare = narrows.run(FEW, seed=3, set=where).summary
        swept = serial.sel(where | {"seed": 3})
        assert {name: float(swept[name]) for name in bare} == bare
    assert serial["goodput_kbps"].attrs["units"] == "kbit/s"
    assert "units" not in serial["jain_20s"].attrs
    assert narrows.Scenario.from_toml(serial.attrs["scenario"]) == FEW


@pytest.mark.parametrize("executor", ["threads", 2, "processes"])
def test_other_workers_give_the_same(serial, executor):
    xarray.testing.assert_identical(narrows.sweep(FEW, OVER, SEEDS, executor=executor, cache=None, task_s=0.05), serial)


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_of_one_s_own_is_used_and_left_open(serial, kind):
    with kind(2) as executor:
        swept = narrows.sweep(FEW, OVER, SEEDS, executor=executor, cache=None, task_s=0.05)
        assert executor.submit(abs, -1).result() == 1
    xarray.testing.assert_identical(swept, serial)


def test_a_sweep_goes_on_where_it_was(serial, tmp_path, monkeypatch):
    class Asked(Exception):
        pass

    def enough(finished, runs):
        if finished == 7:
            raise Asked

    with pytest.raises(Asked):
        narrows.sweep(FEW, OVER, SEEDS, cache=tmp_path, task_s=0, progress=enough)
    assert len(files(tmp_path)) == 7
    # A file that is not whole is no run.
    spoilt = files(tmp_path)[0]
    spoilt.write_bytes(spoilt.read_bytes()[:-3])
    begun = []
    bare = narrows._native.run
    monkeypatch.setattr(narrows._native, "run", lambda *asked: begun.append(asked) or bare(*asked))
    told = []
    swept = narrows.sweep(FEW, OVER, SEEDS, cache=tmp_path, progress=lambda *at: told.append(at))
    xarray.testing.assert_identical(swept, serial)
    assert len(begun) == 24 - 6
    assert told[0] == (6, 24) and told[-1] == (24, 24)
    # A grown sweep runs only the points it has grown by; other settings and seeds are other runs.
    del begun[:]
    narrows.sweep(FEW, OVER | {"discipline": ["fifo:30", "taq", "red"]}, [*SEEDS, 5], cache=tmp_path)
    assert len(begun) == 3 * 3 * 5 - 24


def test_ctrl_c_keeps_what_is_finished(tmp_path):
    """Runs of some hundredths of a second, then one of minutes; in a process of its own, as a terminal would do it.

    With ``killed``, one of our own processes has died before: nobody may wait for it then.
    """
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import multiprocessing, os, signal, sys, narrows

            def tell(finished, runs):
                print(finished, flush=True)
                if finished == 1 and sys.argv[1] == "killed":
                    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)

            if __name__ == "__main__":
                executor = {"here": None, "killed": "processes"}.get(sys.argv[1], sys.argv[1])
                few = narrows.Scenario(name="few", rate="10mbit", rtt="20ms", discipline="fifo:100",
                                       traffic=[narrows.Long(flows=10)])
                try:
                    narrows.sweep(few, {"duration": ["4s", "5s", "6s", "20h"]}, [1], task_s=0, cache="cache",
                                  executor=executor, progress=tell)
                except KeyboardInterrupt:
                    print("interrupted", flush=True)
        """)
    )
    for executor in ("here", "threads", "processes", "killed"):
        with subprocess.Popen(
            [sys.executable, script, executor], cwd=tmp_path, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as process:
            while process.stdout.readline() != "3\n":
                assert process.poll() is None
            time.sleep(0.2)
            # To the whole group, as a terminal does.
            os.killpg(process.pid, signal.SIGINT)
            # The run would take minutes: ending at all is the proof, and the bound is wide for busy machines.
            told, _ = process.communicate(timeout=60)
        assert told == "interrupted\n", executor
        assert process.returncode == 0
        assert len(files(tmp_path / "cache")) == 3
        shutil.rmtree(tmp_path / "cache")


def test_batches_take_the_time_that_was_asked():
    """With a clock of our own: runs of two points, 0.3 s and 0.02 s each."""
    runs = [Run(f"{point}{i}", "", point, None, i) for point in ("slow", "fast") for i in range(100)]
    seconds = {"slow": 0.3, "fast": 0.02}
    batches = Batches(runs, 1.0)
    measuring = batches.next()
    assert measuring == runs[:1]
    batches.took(runs[0], 0.3)
    handed = list(measuring)
    while batch := batches.next():
        took = sum(seconds[run.scenario] for run in batch)
        # The first batch of the fast ones is thought to be slow; a worker hands out no less for it (see below).
        known = batches.expected(batch[-1]) == seconds[batch[-1].scenario]
        assert not known or took >= 1.0 or not batches.waiting
        assert took < 1.0 + max(seconds.values())
        handed += batch
        for run in batch:
            batches.took(run, seconds[run.scenario])
    assert handed == runs


def test_a_worker_begins_no_run_after_its_time(monkeypatch):
    """The clock goes on by 0.2 s at each look: two looks a run, one before each but the first."""
    looks = iter(numpy.arange(0, 100, 0.2))
    points = narrows.expand(FEW, {"seeds": "1..9"})
    runs = [Run(point.key, "", point.scenario, None, point.seed) for point in points]
    monkeypatch.setattr("narrows.sweeps.work.CLOCK", lambda: next(looks))
    done = work(runs, 1.0, narrows.ENGINE, None)
    # Begun at 0; the first run ends at 0.4, the second is begun at 0.6 and ends at 1.0; at 1.2 there is no time for a
    # third.
    assert list(done.finished) == [run.key for run in runs[:2]]
    assert [round(run.seconds, 9) for run in done.finished.values()] == [0.2, 0.2]
    batches = Batches(runs, 1.0)
    first = [batches.next()[0] for _ in range(3)]
    batches.give_back(first[1:])
    assert batches.next() == runs[1:2]


def test_a_worker_with_another_engine_is_refused():
    done = work([Run("k", "here", FEW.to_toml(), None, 1)], 1.0, "another", None)
    assert not done.finished and "client another" in done.failed[1]


def log_scenario(folder):
    (folder / "access.log").write_text("time,client,bytes\n0,a,1000\n1,b,2000\n")
    log = dataclasses.replace(FEW, duration="5s", traffic=[narrows.Log(file="access.log", clients=2)])
    (folder / "log.toml").write_text(log.to_toml())
    return "log.toml"


def test_a_worker_elsewhere_finds_what_the_scenario_names(tmp_path, monkeypatch):
    """The client's folder is not the workers': they are given the whole path."""
    monkeypatch.chdir(tmp_path)
    grid = Grid.of(log_scenario(tmp_path), None, [1], None)
    assert grid.runs[0].file == str(tmp_path / "log.toml")
    monkeypatch.chdir("/")
    assert work(grid.runs, 1.0, narrows.ENGINE, None).failed is None
    assert Grid.of(FEW, None, [1], None).runs[0].file is None


def test_results_of_another_file_are_kept_under_no_key(tmp_path):
    """An access log that is edited between the check of the points and the run, or another one on a worker."""
    runs = Grid.of(tmp_path / log_scenario(tmp_path), None, [1], None).runs
    store = Store.of(tmp_path / "cache")
    (tmp_path / "access.log").write_text("time,client,bytes\n0,a,1000\n1,b,9000\n")
    done = work(runs, 1.0, narrows.ENGINE, store)
    assert not done.finished and not files(tmp_path / "cache")
    where, why = done.failed
    assert where == runs[0].where and "expected the same files everywhere" in why


@pytest.mark.parametrize(
    "settings",
    [
        {"executor": "thread"},
        {"executor": 0},
        {"task_s": "1s"},
        {"retries": -1},
        {"cache": 5},
        {"progress": "yes"},
        {"set": ["rate"]},
        {"workers": 0, "executor": "threads"},
        {"workers": 2},
        {"workers": 2, "executor": 3},
    ],
)
def test_an_argument_that_cannot_be_is_refused_with_its_name(settings):
    with pytest.raises(ValueError, match=next(iter(settings))) as refused:
        narrows.sweep(FEW, OVER, [1], **({"cache": None} | settings))
    assert refused.value.key == next(iter(settings))


def test_a_failing_run_is_named(monkeypatch, tmp_path):
    def broken(*_):
        raise OSError("no disk")

    monkeypatch.setattr(narrows._native, "run", broken)
    with pytest.raises(RuntimeError, match=r"discipline=fifo:30, traffic\.0\.flows=\d+, seed=1: OSError: no disk"):
        narrows.sweep(FEW, OVER, [1], cache=None, executor="threads")


def test_a_folder_that_cannot_be_is_named_with_the_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cache=None for none.*file"):
        narrows.sweep(FEW, OVER, SEEDS, cache=tmp_path / "file" / "folder")


def test_a_full_disk_says_what_is_safe(tmp_path, monkeypatch):
    keep = Store.keep

    def full(self, key, run):
        if len(files(tmp_path)) >= 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(self.path(key)))
        keep(self, key, run)

    monkeypatch.setattr(Store, "keep", full)
    with pytest.raises(RuntimeError, match="No space left on device; 2 of 24 runs are kept there: make room") as said:
        narrows.sweep(FEW, OVER, SEEDS, cache=tmp_path)
    assert str(tmp_path) in str(said.value)


def test_without_xarray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match="pip install xarray"):
        narrows.sweep(FEW, OVER, [1], cache=None)


def test_the_store_keeps_numbers_as_they_are(tmp_path):
    store = Store.of(tmp_path)
    run = Finished({"a": 0.1 + 0.2, "b": 1e-300, "c": 5.0}, 0.25)
    store.keep("abcdef", run)
    assert store.find("abcdef") == run
    assert store.find("abcdee") is None
