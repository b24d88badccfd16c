"""A scenario over a grid, on as many workers as there are; the results are those of a serial run.

:mod:`grid` has the points and the Dataset, :mod:`store` the finished runs on disk, :mod:`batches` what goes to a worker
at a time, :mod:`work` what a worker does, :mod:`pools` threads, processes and clusters, :mod:`drive` keeps them busy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict

from narrows import _native
from narrows.scenario import Scenario

if TYPE_CHECKING:
    from typing_extensions import Unpack
    from xarray import Dataset

__all__ = ["sweep"]

Progress = Callable[[int, int], object]
"""Is told how many runs are finished, of how many."""


class Workers(TypedDict, total=False):
    """How the runs of a sweep are shared out; :func:`sweep` has the meanings."""

    cache: str | os.PathLike[str] | None
    task_s: float
    retries: int
    workers: int | None
    progress: Progress | bool


USUAL: Workers = {"cache": "out/sweep", "task_s": 1.0, "retries": 3, "workers": None, "progress": False}
"""What holds unless it is given."""


def sweep(
    scenario: Scenario | str | os.PathLike[str],
    over: Mapping[str, Iterable[Any]] | None = None,
    seeds: Iterable[int] | str | None = None,
    *,
    executor: Any = None,
    set: Mapping[str, Any] | None = None,
    **how: Unpack[Workers],
) -> Dataset:
    """Simulates every point of a grid under every seed.

    >>> few = narrows.sweep("few.toml", over={"discipline": ["fifo:30", "taq"], "traffic.0.flows": [10, 30, 60]},
    ...                     seeds="1..5", executor="threads")
    >>> few["jain_20s"].mean("seed").sel(discipline="taq")

    Args:
        scenario: a scenario, or the path of a scenario file.
        over: keys as ``set`` has them, each with its values; a dict of values names them: ``{"short": [...]}``. What
            the scenario sweeps itself is swept too, unless it is named here.
        seeds: whole numbers, or ``"1..10"``; without it the scenario's.
        executor: None runs here, one after another; ``"threads"`` or a number of threads; ``"processes"``; any
            ``concurrent.futures.Executor``; a ``dask.distributed.Client``.
        set: settings to replace at every point.
        cache: folder of finished runs, ``out/sweep``: what is there is not run again, so a sweep that was interrupted,
            or grew, goes on. None keeps none.
        task_s: a worker is given about this many seconds of work at a time, 1.
        retries: how often a run is begun again whose worker died of it, or may have, 3.
        workers: how many threads or processes there are, or how many batches an executor runs at a time that does not
            tell; without it as many as there are cores here.
        progress: True writes a line to stderr, a function is called with runs finished and runs in all.

    Returns:
        An xarray Dataset: a variable for each figure of ``result.summary`` with its unit, a dimension for each key of
        ``over``, then those the scenario sweeps, last ``seed``. NaN where a figure could not be measured. A figure that
        has the name of something swept, as ``loss``, is ``figure_loss``.

    Raises:
        ValueError: names the key and the point, or the argument; nothing has been simulated then.
        ImportError: xarray is missing.
        RuntimeError: a run failed, or its worker died more than ``retries`` times, or a file the scenario names is not
            the same everywhere. Finished runs are kept.
        KeyboardInterrupt: within a second after Ctrl-C. Finished runs are kept.
    """
    xarray = _xarray()
    from narrows.sweeps import drive, grid, pools
    from narrows.sweeps.store import Store

    settings = _settings(how)
    _expect("set", set, set is None or isinstance(set, Mapping), "a dict of keys, each with its value")
    cells = grid.Grid.of(scenario, over, seeds, set)
    pool = pools.of(executor, settings["workers"])
    progress = settings["progress"]
    tell = _line if progress is True else progress or None
    store = Store.of(settings["cache"])
    try:
        summaries = drive.run_all(cells.runs, pool, store, settings["task_s"], int(settings["retries"]), tell)
    finally:
        if progress is True:
            sys.stderr.write("\n")
    swept: Dataset = cells.dataset(xarray, summaries)
    return swept


def _settings(how: Workers) -> Workers:
    if unknown := how.keys() - USUAL.keys():
        raise TypeError(f"sweep() got an unexpected keyword argument {min(unknown)!r}")
    settings: Workers = {**USUAL, **how}
    for name, value in (("task_s", settings["task_s"]), ("retries", settings["retries"])):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _expect(name, value, number and 0 <= value < float("inf"), "a number of at least 0")
    cache, workers, progress = settings["cache"], settings["workers"], settings["progress"]
    _expect("cache", cache, cache is None or isinstance(cache, (str, os.PathLike)), "a folder, or None")
    _expect("progress", progress, isinstance(progress, bool) or callable(progress), "True, False or a function")
    count = isinstance(workers, int) and not isinstance(workers, bool) and workers > 0
    _expect("workers", workers, workers is None or count, "a whole number of at least 1, or None")
    return settings


def _expect(name: str, value: object, right: bool, expected: str) -> None:
    if not right:
        raise _native.refusal(name, f"= {value!r}: expected {expected}")


def _xarray() -> Any:
    try:
        import xarray
    except ImportError as why:
        raise ImportError("narrows.sweep gives an xarray Dataset, and there is no xarray: pip install xarray") from why
    return xarray


def _line(finished: int, runs: int) -> None:
    sys.stderr.write(f"\rsweep: {finished} of {runs} runs")
    sys.stderr.flush()
