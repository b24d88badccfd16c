"""Workers of a sweep: which there are, and that one that dies costs no run and is charged to no other."""

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
import xarray
from few import FEW, OVER, SEEDS, files

import narrows
from narrows.sweeps import drive, pools
from narrows.sweeps.grid import Grid
from narrows.sweeps.pools import Pool, Processes
from narrows.sweeps.work import Run, work


def test_a_dask_cluster_loses_a_worker_and_no_run(serial, tmp_path):
    """Three worker processes; one is killed in the middle. Each worker writes down what it begins and ends."""
    distributed = pytest.importorskip("distributed")
    log, cache = tmp_path / "log", tmp_path / "cache"
    log.touch()

    def watched():
        import os

        from narrows import _native

        bare = _native.run

        def run(*asked):
            told = bare(*asked)
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
    # Runs that the killed worker had finished and could not hand over are done again, and nothing else.
    assert len({pid for pid, _ in ended} - {str(killed[0])}) >= 2
    counts = Counter(key for pid, key in ended if int(pid) != killed[0])
    assert set(counts.values()) == {1}
    again = [key for pid, key in ended if int(pid) == killed[0] and key in counts]
    assert len(again) <= 1


def die_once(marker):
    if not os.path.exists(marker):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Breaking(Pool):
    """Four batches are out when a worker dies of the run that is named next; all are lost, as in a pool of
    processes."""

    def __init__(self, deaths):
        super().__init__(None, count=2)
        self.deaths, self.out = list(deaths), []

    def submit(self, runs, *how):
        future = Future()
        if not self.deaths:
            future.set_result(work(runs, *how))
            return future
        self.out.append(future)
        if len(self.out) == 4:
            self.died_of = self.deaths.pop(0)
            for lost in self.out:
                lost.set_exception(BrokenExecutor("a process died"))
        return future

    def begun(self, future, runs):
        return [run for run in runs if run.key == self.died_of]

    def mend(self):
        self.out = []
        return True


def test_only_what_a_worker_was_at_counts_as_tried_again():
    """Each time another run is what a worker dies of; the others were out with it, and were never begun."""
    runs = Grid.of(FEW, {"traffic.0.flows": [5, 10]}, [1, 2], None).runs
    keys = [run.key for run in runs]
    assert drive.run_all(runs, Breaking(keys), None, 0.0, 1, None).keys() == set(keys)
    with pytest.raises(RuntimeError, match="flows=10, seed=1: its worker died 2 times"):
        drive.run_all(runs, Breaking([*keys, keys[2]]), None, 0.0, 1, None)


def test_our_own_processes_mark_what_they_are_at():
    """One process, killed in the middle of the first of three batches: its second run was begun, nothing else."""
    import multiprocessing

    long = dataclasses.replace(FEW, rate="100mbit", rtt="20ms", duration="10h")
    short, minutes = narrows.expand(FEW)[0], narrows.expand(long)[0]
    runs = [Run(p.key, name, p.scenario, None, 1) for name, p in (("short", short), ("minutes", minutes))]
    others = [Run(short.key, "waits", short.scenario, None, 1)]
    pool = Processes(1)
    try:
        how = 60.0, narrows.ENGINE, None
        futures = [(pool.submit(batch, *how), batch) for batch in (runs, others)]
        marks, slot = pool.slots[futures[0][0]]
        until = time.monotonic() + 60
        while marks[slot] < 2 and time.monotonic() < until:
            time.sleep(0.01)
        os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
        for future, _ in futures:
            assert isinstance(future.exception(timeout=60), BrokenExecutor)
        assert [[r.where for r in pool.begun(future, batch)] for future, batch in futures] == [["minutes"], []]
        assert pool.mend()
        again = pool.submit(others, *how)
        assert list(again.result(timeout=60).finished) == [short.key]
        assert not pool.slots and len(pool.free) == len(pool.marks)
    finally:
        pool.interrupt()
        pool.close()


def test_processes_that_cannot_begin_end_the_sweep(tmp_path):
    """A script whose processes die as they read it, and one without ``if __name__ == "__main__":``."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import os, sys, narrows
            if __name__ != "__main__":
                os._exit(3)
            few = narrows.Scenario(name="few", rate="10mbit", rtt="20ms", duration="5s", discipline="fifo:100",
                                   traffic=[narrows.Long(flows=3)])
            try:
                narrows.sweep(few, {"mtu": [500, 1000]}, [1, 2], executor="processes", cache=None)
            except RuntimeError as why:
                print(why)
        """)
    )
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "no worker process came up" in done.stdout, done.stderr
    lines = [line for line in script.read_text().splitlines() if "__main__" not in line and "_exit" not in line]
    script.write_text("\n".join(lines))
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.splitlines() == [
        "no worker process came up: a script has to call sweep() below `if __name__ == '__main__':`, as its workers "
        "import it; or use executor='threads'"
    ]
    assert done.stderr == ""


def test_an_executor_of_unknown_size_is_told_how_many_workers():
    class Quiet(Executor):
        def __init__(self):
            self.inner, self.out, self.most = ThreadPoolExecutor(8), 0, 0

        def submit(self, *what):
            self.out += 1
            self.most = max(self.most, self.out)
            future = self.inner.submit(*what)
            future.add_done_callback(self.ended)
            return future

        def ended(self, _):
            self.out -= 1

    quiet = Quiet()
    narrows.sweep(FEW, OVER, SEEDS, executor=quiet, workers=5, cache=None, task_s=0)
    # Two batches a worker, one to do and one to go on with.
    assert quiet.most == 10
    quiet.inner.shutdown()


def test_the_executor_of_a_client_is_the_client_s():
    """``Client.get_executor()`` does not tell its size; without a cluster, as only what is asked of it matters."""

    class Client:
        def get_executor(self, **settings):
            self.asked = settings
            return ClientExecutor(self, settings)

        def nthreads(self):
            return {"a": 16, "b": 16}

    class ClientExecutor(Executor):
        def __init__(self, client, settings):
            self._client, self._kwargs = client, settings

    client = Client()
    pool = pools.of(client.get_executor(resources={"x": 1}))
    assert isinstance(pool, pools.Dask) and pool.workers() == 32
    assert client.asked == {"resources": {"x": 1}, "pure": False}
    assert pools.of(client, 3).workers() == 3


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
