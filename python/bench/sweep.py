"""Cost of a sweep beside its runs, and gain of a second worker: the figures of docs/how-to/scaling.md.

    python python/bench/sweep.py [SECONDS OF RUNS]
    python python/bench/sweep.py many [RUNS [SECONDS OF A RUN]]

All ways do the same runs of about a second, the length is chosen on the spot. Bare runs are
``narrows.run`` one after another. Each way is done twice, in turn, and the better one counts: what else the machine
does makes it longer, never shorter. Processes and the cluster are begun before the clock.
"""

import json
import os
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import narrows

MANY = sys.argv[1:2] == ["many"]
BUDGET_S = float(sys.argv[1]) if len(sys.argv) > 1 and not MANY else 4.0
"""Bare runs take so long together."""


def scenario(duration_s):
    return narrows.Scenario(
        name="load",
        rate="20mbit",
        rtt="40ms",
        duration=f"{duration_s:.0f}s",
        discipline="fifo:100",
        traffic=[narrows.Long(flows=20)],
    )


def timed(work):
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def simulated(run_s):
    """How many seconds of the scenario take `run_s` to simulate."""
    probe = min(timed(lambda: narrows.run(scenario(60), seed=1)) for _ in range(3))
    return 60 * run_s / probe


def bare(load, seeds):
    for seed in seeds:
        narrows.run(load, seed=seed)


def swept(load, seeds, executor):
    with tempfile.TemporaryDirectory() as cache:
        narrows.sweep(load, {"rate": ["20mbit"]}, seeds, executor=executor, cache=cache)


def ways(pools):
    """Ways to do the runs: name, number of workers, function."""
    yield "bare runs", 1, bare
    yield "sweep, here", 1, lambda load, seeds: swept(load, seeds, None)
    for name, workers, pool in pools:
        yield f"sweep, {name}", workers, lambda load, seeds, pool=pool: swept(load, seeds, pool)


def table(run_s, pools):
    load = scenario(simulated(run_s))
    count = max(2, round(BUDGET_S / run_s / 2) * 2)
    seeds = range(1, count + 1)
    found = {}
    for _ in range(2):
        for name, workers, way in ways(pools):
            taken = timed(lambda way=way: way(load, seeds))
            found[name, workers] = min(taken, found.get((name, workers), taken))
    base = found["bare runs", 1]
    print(f"\n{count} runs of {base / count:.2f} s\n")
    print("| | workers | s | beside bare runs | times one worker |")
    print("|---|--:|--:|--:|--:|")
    ones = {name: taken for (name, workers), taken in found.items() if workers == 1}
    for (name, workers), taken in found.items():
        over = f"{100 * (taken * workers / base - 1):+.1f} %"
        times = f"{ones[name] / taken:.2f}" if workers > 1 else ""
        print(f"| {name} | {workers} | {taken:.2f} | {over} | {times} |")


def many(count=10_000, run_s=0.02):
    """Prints the processor time that a sweep of many short runs on two worker processes adds to the runs. Client and
    workers count together, other work on the machine does not."""
    import resource

    def processor():
        used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(each.ru_utime + each.ru_stime for each in used)

    load = scenario(simulated(run_s))
    bare(load, range(1, 50))
    begun = processor()
    some = range(1, count, 10)
    bare(load, some)
    alone = (processor() - begun) / len(some) * count
    told = {}
    for name, cache in (("without cache", False), ("with cache", True)):
        begun, clock = processor(), time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            kept = folder if cache else None
            # The workers are the sweep's own and end with it, so that their time is known.
            narrows.sweep(
                load, {"rate": ["20mbit"]}, range(1, count + 1), executor="processes", workers=2, cache=kept
            )
        told[name] = processor() - begun, time.perf_counter() - clock
    print(f"{count} runs of {1e3 * alone / count:.1f} ms, {alone:.1f} s of processor time alone, two worker processes")
    for name, (used, wall) in told.items():
        print(f"{name}: {used:.1f} s of processor time, {100 * (used / alone - 1):+.1f} %; {wall:.1f} s by the clock")


def sizes():
    """Prints the sizes of the messages and files of a run."""
    import pickle

    from narrows.sweeps.grid import Grid
    from narrows.sweeps.store import Finished, Store
    from narrows.sweeps.work import Done

    load = scenario(10)
    runs = Grid.of(load, {"rate": ["20mbit"]}, "1..100", None).runs
    summary = dict(narrows.run(load, seed=1).summary)
    done = {run.key: Finished({k: v + run.seed * 1e-9 for k, v in summary.items()}, 0.1) for run in runs}
    with tempfile.TemporaryDirectory() as cache:
        store = Store.of(cache)
        store.keep(runs[0].key, done[runs[0].key])
        kept = store.path(runs[0].key).stat().st_size
    there, back = len(pickle.dumps(runs)) / 100, len(pickle.dumps(Done(done))) / 100
    print(
        f"\nper run: {there:.0f} bytes to the worker, {back:.0f} back, {kept} on disk, "
        f"{8 * len(summary)} in the Dataset"
    )


def client_costs(count=10_000):
    """Prints the client's cost of a run, with a thousand workers whose runs finish at once."""
    import resource
    from concurrent.futures import Future

    import xarray

    from narrows.sweeps import drive
    from narrows.sweeps.grid import Grid
    from narrows.sweeps.pools import Pool
    from narrows.sweeps.store import Finished, Store
    from narrows.sweeps.work import Done

    class AtOnce:
        _max_workers = 1000

        def submit(self, _, runs, *rest):
            future = Future()
            future.set_result(Done({run.key: Finished(dict(summary), 0.1) for run in runs}))
            return future

    summary = dict(narrows.run(scenario(10), seed=1).summary)
    told = {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as cache:
        over = {"traffic.0.flows": range(1, 11)}
        told["grid"] = timed(lambda: told.update(it=Grid.of(scenario(10), over, range(count // 10), None)))
        grid = told.pop("it")
        for name, store in (("without cache", None), ("with cache", Store.of(cache))):
            ask = lambda store=store: told.update(it=drive.run_all(grid.runs, Pool(AtOnce()), store, 1.0, 3, None))
            told[name] = timed(ask)
        found = told.pop("it")
        told["Dataset"] = timed(lambda: grid.dataset(xarray, found))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / count
    each = ", ".join(f"{name} {1e6 * taken / count:.0f}" for name, taken in told.items())
    print(f"\nclient, microseconds a run: {each}; memory at most {grown:.1f} KiB a run")


def tasks_per_second(client, count=2000):
    """Prints the time that the scheduler of a cluster takes for a task that does nothing."""
    taken = timed(lambda: client.gather(client.map(abs, range(count), pure=False)))
    print(f"\nDask: {1000 * taken / count:.2f} ms for a task that does nothing ({count} tasks, 2 workers)")


def main():
    import logging

    import xarray  # noqa: F401  what is imported once is no cost of a sweep
    from distributed import Client, LocalCluster

    if MANY:
        many(*(kind(given) for kind, given in zip((int, float), sys.argv[2:])))
        return
    logging.getLogger("distributed").setLevel(logging.ERROR)

    print(json.dumps({"cores": os.cpu_count(), "narrows": narrows.VERSION, "engine": narrows.ENGINE}))
    pools = []
    with tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2):
            pools.append(("threads", workers, ThreadPoolExecutor(workers)))
        for workers in (1, 2):
            pool = ProcessPoolExecutor(workers, initializer=narrows.run, initargs=(scenario(10),))
            list(pool.map(abs, range(10 * workers)))
            pools.append(("processes", workers, pool))
        local = {"threads_per_worker": 1, "dashboard_address": ":0", "local_directory": folder}
        clusters = [LocalCluster(n_workers=workers, **local) for workers in (1, 2)]
        clients = [Client(cluster) for cluster in clusters]
        for workers, client in enumerate(clients, 1):
            client.run(narrows.run, scenario(10))
            pools.append(("Dask", workers, client))
        table(1.0, pools)
        tasks_per_second(clients[1])
        sizes()
        client_costs()
        for closing in [*clients, *clusters]:
            closing.close()


if __name__ == "__main__":
    main()
