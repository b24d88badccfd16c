"""Sweeps: the same on every kind of worker, nothing lost or done twice, Ctrl-C, what is refused."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy
import pytest
import xarray

import narrows
from narrows.sweeps.batches import Batches
from narrows.sweeps.store import Finished, Store
from narrows.sweeps.work import Run, work

FEW = narrows.Scenario(
    name="few", rate="600kbit", rtt="200ms", mtu=500, duration="45s", discipline="taq", traffic=[narrows.Long(flows=10)]
)
OVER = {"discipline": ["fifo:30", "taq"], "traffic.0.flows": [5, 10, 20]}
SEEDS = [1, 2, 3, 4]


@pytest.fixture(scope="module")
def serial():
    return narrows.sweep(FEW, OVER, SEEDS, cache=None)


def files(folder):
    return sorted(folder.glob("*/*.json"))


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


def test_a_dask_cluster_loses_a_worker_and_no_run(serial, tmp_path):
    """Three worker processes; one is killed in the middle. Each worker writes down what it begins and ends."""
    distributed = pytest.importorskip("distributed")
    log, cache = tmp_path / "log", tmp_path / "cache"
    log.touch()

    def watched():
        import os

        from narrows import _native

        bare = _native.run

        def run(text, file, sets, seed, stop):
            told = bare(text, file, sets, seed, stop)
            with open(log, "a") as out:
                out.write(f"{os.getpid()} {told['manifest']['key']}\n")
            return told

        _native.run = run

    killed = []

    def kill_one(finished, runs):
        if finished >= runs // 4 and not killed:
            killed.append(next(iter(pids)))
            os.kill(killed[0], signal.SIGKILL)

    over = OVER | {"traffic.0.flows": [5, 10, 15, 20]}
    here = narrows.sweep(FEW, over, range(1, 9), cache=None)
    # A folder of its own: workers and nannies leave files behind.
    with (
        distributed.LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            dashboard_address=":0",
            local_directory=str(tmp_path),
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.register_worker_callbacks(watched)
        pids = set(client.run(os.getpid).values())
        assert len(pids) == 3
        swept = narrows.sweep(FEW, over, range(1, 9), executor=client, cache=cache, task_s=0.05, progress=kill_one)
    xarray.testing.assert_identical(swept, here)
    assert killed
    ended = [line.split() for line in log.read_text().splitlines()]
    keys = {path.stem for path in files(cache)}
    assert {key for _, key in ended} == keys
    assert len(keys) == 64
    # What the killed worker had done and could not hand over is done again, and nothing else.
    assert len({pid for pid, _ in ended} - {str(killed[0])}) >= 2
    counts = Counter(key for pid, key in ended if int(pid) != killed[0])
    assert set(counts.values()) == {1}
    again = [key for pid, key in ended if int(pid) == killed[0] and key in counts]
    assert len(again) <= 1


def die_once(marker):
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_our_own_processes_are_made_anew(serial, tmp_path):
    """A worker process is killed as soon as there is one."""
    import multiprocessing

    killed = []

    def kill_one(finished, runs):
        if finished and not killed:
            killed.append(multiprocessing.active_children()[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    swept = narrows.sweep(
        FEW, OVER, SEEDS, executor="processes", cache=tmp_path / "cache", task_s=0.02, progress=kill_one
    )
    assert killed
    xarray.testing.assert_identical(swept, serial)


def test_a_broken_pool_of_one_s_own_says_what_remains(tmp_path):
    with ProcessPoolExecutor(1) as pool:
        with pytest.raises(Exception, match="abruptly"):
            pool.submit(die_once, str(tmp_path / "died")).result()
        with pytest.raises(RuntimeError, match="executor is broken by it: 0 of 24 runs are finished and kept in"):
            narrows.sweep(FEW, OVER, SEEDS, executor=pool, cache=tmp_path / "cache")


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
    # What a sweep has grown by is all that is run; other settings and seeds are other runs.
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
            # It would go on for minutes: that it ends at all is the proof, and the bound is wide for busy machines.
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


def test_a_worker_begins_no_run_after_its_time():
    """The clock goes on by 0.2 s at each look: two looks a run, one before each but the first."""
    looks = iter(numpy.arange(0, 100, 0.2))
    points = narrows.expand(FEW, {"seeds": "1..9"})
    runs = [Run(point.key, "", point.scenario, None, point.seed) for point in points]
    done = work(runs, 1.0, narrows.ENGINE, None, clock=lambda: next(looks))
    # Begun at 0; the first run ends at 0.4, the second is begun at 0.6 and ends at 1.0; at 1.2 there is no time for a third.
    assert list(done.finished) == [run.key for run in runs[:2]]
    assert [round(run.seconds, 9) for run in done.finished.values()] == [0.2, 0.2]
    batches = Batches(runs, 1.0)
    first = [batches.next()[0] for _ in range(3)]
    batches.give_back(first[1:])
    assert batches.next() == runs[1:2]


def test_a_worker_with_another_engine_is_refused():
    done = work([Run("k", "here", FEW.to_toml(), None, 1)], 1.0, "another", None)
    assert not done.finished and "client another" in done.failed[1]


def test_the_scenario_s_own_sweep_is_swept(tmp_path):
    own = narrows.Scenario.from_toml(FEW.to_toml())
    own.sweep = {"traffic.0.flows": [5, 10], "rate": ["600kbit", "1mbit"]}
    own.seeds = "1..2"
    grid = narrows.sweep(own, cache=None)
    assert dict(grid.sizes) == {"rate": 2, "traffic.0.flows": 2, "seed": 2}
    assert grid["traffic.0.flows"].dtype.kind == "i"
    fewer = narrows.sweep(own, {"rate": ["600kbit"]}, [2], cache=None)
    assert list(fewer.sizes) == ["rate", "traffic.0.flows", "seed"]
    xarray.testing.assert_equal(fewer.isel(rate=0), grid.sel(rate="600kbit", seed=[2]).transpose(..., "seed"))
    own.sweep = {"together": [{"traffic.0.flows": [5, 10], "mtu": [500, 1000]}]}
    beside = narrows.sweep(own, cache=None)
    assert dict(beside.sizes) == {"point": 2, "seed": 2}
    assert beside["mtu"].values.tolist() == [500, 1000]


def test_values_can_be_named(tmp_path):
    two = {"few": [{"kind": "long", "flows": 5}], "more": [narrows.Long(flows=9)]}
    swept = narrows.sweep(FEW, {"traffic": two}, [1], cache=None)
    assert swept["traffic"].values.tolist() == ["few", "more"]
    # One value under two names is one run.
    twice = narrows.sweep(FEW, {"mtu": {"thin": 500, "also": 500}}, [1], cache=tmp_path)
    assert len(files(tmp_path)) == 1
    xarray.testing.assert_equal(twice.sel(mtu="thin", drop=True), twice.sel(mtu="also", drop=True))


@pytest.mark.parametrize(
    ("over", "seeds", "key", "words"),
    [
        ({"ratee": ["1mbit"]}, [1], "ratee", "no such key"),
        ({"rate": ["1mbit", "3s"]}, [1], "rate", "expected a rate.*rate=3s"),
        ({"mtu": [500, "many"]}, [1], "mtu", "whole number.*mtu=many"),
        ({"rate": "1mbit"}, [1], "rate", "expected a list"),
        ({"rate": 5}, [1], "rate", "expected a list"),
        ({"rate": []}, [1], "rate", "no values"),
        ({"mtu": [500, 500]}, [1], "mtu", "twice"),
        ({"rtt": [object()]}, [1], "rtt", "expected text, a number"),
        ({"seeds": [1]}, None, "seeds", "argument seeds="),
        ({1: [1]}, [1], "over", "expected text"),
        (["rate"], [1], "over", "expected a dict"),
        ({"rate": ["1mbit"]}, ["x"], "seeds", "whole numbers"),
        ({"rate": ["1mbit"]}, 5, "seeds", "expected a list"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(over, seeds, key, words, monkeypatch):
    monkeypatch.setattr(narrows._native, "run", lambda *_: pytest.fail("a run was begun"))
    with pytest.raises(ValueError, match=words) as refused:
        narrows.sweep(FEW, over, seeds, cache=None)
    assert refused.value.key == key


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
