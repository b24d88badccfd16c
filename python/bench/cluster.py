"""Load that a sweep puts on Dask with 64 workers, whose runs sleep: the figures of docs/how-to/scaling.md.

    python python/bench/cluster.py [TASKS [TASK_S [RUNS_A_TASK]]]

Scheduler, workers and client are processes of their own, with one thread for each worker. A task is a batch of the
sweep's own client; in the place of simulations it sleeps TASK_S and gives back as many finished runs as were asked for,
with all figures of a real one. Sleeping takes no core, so 64 workers fit on two; what scheduler and client
do is as it would be, at 64 / TASK_S tasks a second. They are judged by processor time, which a busy machine does not
stretch.
"""

import os
import pickle
import resource
import subprocess
import sys
import tempfile
import time

import narrows
from narrows.sweeps import drive
from narrows.sweeps.grid import Grid
from narrows.sweeps.pools import Dask
from narrows.sweeps.store import Finished
from narrows.sweeps.work import Done

WORKERS = 64
TASKS, TASK_S, BATCH = (
    kind(given) for kind, given in zip((int, float, int), (sys.argv[1:] + ["2000", "0.64", "10"][len(sys.argv) - 1 :]))
)
# 64 workers on two cores: each would look 100 times a second at what it does.
CALM = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false", "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "1s"}
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": dict(os.environ, **CALM)}


def slept(runs, task_s, summary):
    """Result that a worker gives back for a batch."""
    time.sleep(task_s)
    return Done({run.key: Finished(dict(summary, seed=float(run.seed)), task_s / len(runs)) for run in runs})


class Sleeping(Dask):
    """The sweep's way to Dask, for work that sleeps."""

    def __init__(self, client, summary):
        super().__init__(client)
        self.summary, self.tasks = client.scatter(summary, broadcast=True), 0

    def submit(self, runs, *how):
        self.tasks += 1
        return self.executor.submit(slept, runs, TASK_S, self.summary)


def used(pid):
    """Processor seconds and the most memory, in MB, a process has had."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/status") as file:
        peak = next(int(line.split()[1]) / 1e3 for line in file if line.startswith("VmHWM"))
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak


def network():
    """Bytes this machine has sent to itself."""
    with open("/proc/net/dev") as file:
        return next(int(line.split()[9]) for line in file if line.strip().startswith("lo:"))


def measured(client, scheduler, runs, summary):
    pool = Sleeping(client, summary)
    drive_it = lambda: drive.run_all(runs, pool, None, TASK_S, 3, None)  # noqa: E731
    before, sent, own = used(scheduler), network(), resource.getrusage(resource.RUSAGE_SELF)
    begun = time.perf_counter()
    found = drive_it()
    wall, after, sent = time.perf_counter() - begun, used(scheduler), network() - sent
    now = resource.getrusage(resource.RUSAGE_SELF)
    assert len(found) == len(runs)
    busy = now.ru_utime + now.ru_stime - own.ru_utime - own.ru_stime
    ideal = pool.tasks * TASK_S / WORKERS
    there, back = len(pickle.dumps(runs[:BATCH])), len(pickle.dumps(slept(runs[:BATCH], 0, summary)))
    print(f"{pool.tasks} tasks of {len(runs) / pool.tasks:.1f} runs, {TASK_S} s each, {WORKERS} workers")
    print(f"wall {wall:.1f} s, of sleep alone {ideal:.1f}: {pool.tasks / wall:.0f} tasks a second")
    print(f"scheduler: {1e3 * (after[0] - before[0]) / pool.tasks:.2f} ms a task, most memory {after[1]:.0f} MB")
    grown = (now.ru_maxrss - own.ru_maxrss) / len(runs)
    print(f"client: {1e6 * busy / len(runs):.0f} us a run, {grown:.2f} KiB a run")
    pickled = f"{there / BATCH:.0f} there and {back / BATCH:.0f} back, pickled"
    print(f"bytes a run: {pickled}; {sent / len(runs):.0f} on the wire")


def started(folder):
    """A scheduler and the workers; gives their processes and where the scheduler is."""
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    there = os.path.join(folder, "scheduler.json")
    scheduler = subprocess.Popen([*command, "--scheduler-file", there], cwd=folder, **QUIET)
    workers = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", there, "--nthreads", "1"]
    workers += ["--nworkers", str(WORKERS), "--no-dashboard", "--local-directory", folder]
    workers += ["--memory-limit", "0"]
    return scheduler, subprocess.Popen(workers, cwd=folder, **QUIET), there


def main():
    from distributed import Client

    load = narrows.Scenario(
        name="load",
        rate="20mbit",
        rtt="40ms",
        duration="10s",
        discipline="fifo:100",
        traffic=[narrows.Long(flows=20)],
    )
    summary = dict(narrows.run(load, seed=1).summary)
    runs = Grid.of(load, {"traffic.0.flows": range(1, 11)}, range(TASKS * BATCH // 10), None).runs
    with tempfile.TemporaryDirectory() as folder:
        scheduler, workers, there = started(folder)
        try:
            with Client(scheduler_file=there, timeout=120) as client:
                client.wait_for_workers(WORKERS, timeout=900)
                # Each worker imports what it needs before the clock.
                client.run(slept, [], 0, {})
                measured(client, scheduler.pid, runs, summary)
        finally:
            for process in (workers, scheduler):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
