"""A scenario over a grid, on as many workers as there are; the results are those of a serial run.

:mod:`grid` has the points and the Dataset, :mod:`tables` the tables of all runs, :mod:`store` the finished runs on
disk, :mod:`batches` what goes to a worker at a time, :mod:`work` what a worker does, :mod:`pools` threads, processes
and clusters, :mod:`drive` keeps them busy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, overload

from narrows import _native, own, progress
from narrows.near import one_of
from narrows.scenario import Scenario

if TYPE_CHECKING:
    from typing_extensions import Unpack
    from xarray import Dataset

__all__ = ["Swept", "sweep"]

Over = Mapping[Any, Iterable[Any]]
"""Keys, or tuples of keys, and their values."""


class Swept(NamedTuple):
    """Result of a sweep with tables."""

    figures: Dataset
    """Dataset with a variable for each figure."""
    tables: Mapping[str, _native.Table]
    """Tables by name: the rows of all runs, each with the coordinates of its run in front."""


class Workers(TypedDict, total=False):
    """How the runs of a sweep are shared out; :func:`sweep` has the meanings."""

    executor: Any
    cache: str | os.PathLike[str] | None
    task_s: float
    retries: int
    workers: int | None
    progress: progress.Asked


USUAL: Workers = {
    "executor": None,
    "cache": "out/sweep",
    "task_s": 1.0,
    "retries": 3,
    "workers": None,
    "progress": False,
}
"""Defaults of the arguments."""


@overload
def sweep(
    scenario: Scenario | str | os.PathLike[str],
    over: Over | None = None,
    seeds: Iterable[int] | str | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    tables: None = None,
    **how: Unpack[Workers],
) -> Dataset: ...
@overload
def sweep(
    scenario: Scenario | str | os.PathLike[str],
    over: Over | None = None,
    seeds: Iterable[int] | str | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    tables: Iterable[str],
    **how: Unpack[Workers],
) -> Swept: ...
def sweep(
    scenario: Scenario | str | os.PathLike[str],
    over: Over | None = None,
    seeds: Iterable[int] | str | None = None,
    *,
    set: Mapping[str, Any] | None = None,
    tables: Iterable[str] | None = None,
    **how: Unpack[Workers],
) -> Dataset | Swept:
    """Simulates every point of a grid under every seed.

    >>> few = narrows.sweep("few.toml", over={"discipline": ["fifo:30", "taq"], "flows": [10, 30, 60]},
    ...                     seeds="1..5", executor="threads")
    >>> few["jain_20s"].mean("seed").sel(discipline="taq")

    Args:
        scenario: a scenario, or the path of a scenario file.
        over: keys as ``set`` has them, each with its values, short ones too: ``{"flows": [10, 30]}`` makes a dimension
            ``flows`` where one key only can be meant. A dict of values names them: ``{"short": [...]}``. Keys
            that change together are a tuple: ``{("rtt", "discipline"): [("200ms", "taq"), ("2s", "cake")]}``. What the
            scenario sweeps itself is swept too, unless it is named here.
        seeds: whole numbers, or ``"1..10"``; without it the scenario's.
        set: settings to replace at every point.
        tables: names of tables to bring along, as ``["flows"]`` (``docs/reference/probes.md``), for what has to be seen
            run by run, as a distribution over all seeds.
        executor: None runs here, one after another; ``"threads"`` or a number of threads; ``"processes"``; any
            ``concurrent.futures.Executor``; a ``dask.distributed.Client``.
        cache: folder of finished runs, ``out/sweep``: what is there is not run again, so a sweep that was interrupted,
            or grew, goes on. Sweeps that use one folder at the same time share their runs. None keeps none.
        task_s: a worker is given about this many seconds of work at a time, 1.
        retries: how often a run is begun again whose worker died of it, or may have, 3.
        workers: how many threads or processes there are, or how many batches an executor runs at a time that does not
            tell; without it as many as there are cores here.
        progress: True shows how far it is and the time that is left, as a bar of tqdm where that is installed (in a
            notebook a widget), else as a line on stderr; a function is called with runs finished and runs in all.

    Returns:
        An xarray Dataset: a variable for each figure of ``result.summary`` with its unit, a dimension for each key of
        ``over``, then those the scenario sweeps, last ``seed``. Rates, times and sizes are coordinates in bit/s,
        seconds and bytes. A tuple of keys is one dimension, ``rtt+discipline``, with a coordinate of each. NaN where a
        figure could not be measured. A figure that has the name of something swept, as ``loss``, is ``figure_loss``.
        With ``tables`` a pair, :class:`Swept`: this Dataset, and the tables by name.

    Raises:
        ValueError: names the key and the point, or the argument; nothing has been simulated then.
        ImportError: xarray is missing.
        RuntimeError: a run failed, or its worker died more than ``retries`` times, or a file the scenario names is not
            the same everywhere. Finished runs are kept.
        KeyboardInterrupt: within a second after Ctrl-C. Finished runs are kept.
    """
    xarray = _xarray()
    from narrows.near import Named
    from narrows.sweeps import drive, grid, pools
    from narrows.sweeps import tables as table_files
    from narrows.sweeps.store import Store

    settings = _settings(how)
    _expect("set", set, set is None or isinstance(set, Mapping), "a dict of keys, each with its value")
    names = table_files.names(() if tables is None else tables)
    cells = grid.Grid.of(scenario, over, seeds, set).asking(names)
    pool = pools.of(settings["executor"], settings["workers"])
    brought = any(own.names(run.scenario) for run in cells.runs)
    here = settings["executor"] is None or settings["executor"] == "threads" or isinstance(settings["executor"], int)
    right = here or not brought
    _expect("executor", settings["executor"], right, 'None or "threads": the scenario has a class of this process')
    # A finished run's key does not tell what a class did.
    store = None if brought else Store.of(settings["cache"])
    with progress.told(settings["progress"], "sweep") as tell:
        rows = drive.run_all(cells.runs, pool, store, settings["task_s"], int(settings["retries"]), tell)
    swept: Dataset = cells.dataset(xarray, rows)
    return swept if tables is None else Swept(swept, Named.of(cells.tables(names, rows), "table of this sweep"))


def _settings(how: Workers) -> Workers:
    if unknown := how.keys() - USUAL.keys():
        name = min(unknown)
        raise TypeError(f"sweep() got an unexpected keyword argument {name!r}: expected {one_of(name, USUAL)}")
    settings: Workers = {**USUAL, **how}
    for name, value in (("task_s", settings["task_s"]), ("retries", settings["retries"])):
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        _expect(name, value, number and 0 <= value < float("inf"), "a number of at least 0")
    cache, workers = settings["cache"], settings["workers"]
    _expect("cache", cache, cache is None or isinstance(cache, (str, os.PathLike)), "a folder, or None")
    progress.expect(settings["progress"])
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
