"""Means over seeds with their 95 % intervals (Student's): as numbers, in tables, in plots.

Simulations of one point with other seeds are independent of each other, so the mean of ``n`` of them lies within
``t(n - 1) s / sqrt(n)`` of what endless seeds would give, 95 times in a hundred. Intervals that do not overlap differ;
of seeds in common, take the difference first: ``narrows.ci(a - b)``.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np

from narrows import _native
from narrows.near import one_of
from narrows.views import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import DataArray, Dataset

    Data = TypeVar("Data", bound=Union[DataArray, Dataset])

__all__ = ["ci", "ci_plot", "ci_table"]


def ci(data: Data, over: str = "seed") -> Data:
    """Means over seeds and the ends of their 95 % intervals.

    >>> sure = narrows.ci(grid["jain_20s"])
    >>> sure.sel(ci="mean"), sure.sel(ci="low"), sure.sel(ci="high")

    Args:
        data: a figure, or all figures, of :func:`narrows.sweep`.
        over: the dimension of the seeds.

    Returns:
        The same without that dimension, and with ``ci``: ``mean``, ``low``, ``high``. Seeds that have no number are
        left out; NaN for the ends where fewer than two have one.

    Raises:
        ValueError: there is no such dimension.
    """
    import xarray

    if over not in data.dims:
        raise ValueError(f"over = {over!r}: no such dimension: expected {one_of(over, map(str, data.dims))}")
    figures: Any = data
    mean, deviation = figures.mean(over, keep_attrs=True), figures.std(over, ddof=1)
    # A factor for each number of seeds that may have a value, from none on.
    counts = range(1, int(figures.sizes[over]) + 1)
    factors = np.array([np.nan, *(_native.students_95(n - 1) / n**0.5 for n in counts)])
    half = deviation * xarray.apply_ufunc(lambda n: factors[n], figures.notnull().sum(over).astype(int))
    parts = [mean, mean - half, mean + half]
    labels = xarray.DataArray(["mean", "low", "high"], dims="ci", name="ci")
    told: Data = xarray.concat(parts, labels, combine_attrs="drop_conflicts").transpose(..., "ci")
    return told


def ci_table(data: DataArray, over: str = "seed") -> Any:
    """A pandas DataFrame for people: ``0.952 ±0.010`` for each point.

    The last dimension stands in columns, the others in rows.
    """
    sure = ci(data, over)
    mean, high = sure.sel(ci="mean", drop=True), sure.sel(ci="high", drop=True)
    ends = zip(mean.values.ravel().tolist(), high.values.ravel().tolist())
    words = np.array([number(m) if np.isnan(h) else f"{number(m)} ±{h - m:.2g}" for m, h in ends])
    told: Any = mean.copy(data=words.reshape(mean.shape).astype(object))
    if told.ndim == 1:
        return told.to_series().to_frame(str(data.name))
    return told.to_series().unstack(str(mean.dims[-1]), sort=False)


def ci_plot(data: DataArray, x: str, over: str = "seed", ax: Axes | None = None) -> Axes:
    """Draws the means over ``x``, each with its interval as a band; a line for each point of the other dimensions.

    Args:
        data: a figure of :func:`narrows.sweep`.
        x: the dimension to draw over.
        over: the dimension of the seeds.
        ax: axes to draw into; without it new ones.

    Raises:
        ImportError: matplotlib is missing.
    """
    from matplotlib import pyplot

    sure = ci(data, over)
    if x not in sure.dims or x == "ci":
        known = (str(dim) for dim in data.dims if dim != over)
        raise ValueError(f"x = {x!r}: no such dimension: expected {one_of(x, known)}")
    if ax is None:
        ax = pyplot.subplots()[1]
    others = [dim for dim in sure.dims if dim not in (x, "ci")]
    for place in itertools.product(*(sure[dim].values for dim in others)):
        line = sure.sel(dict(zip(others, place)))
        mean, low, high = (line.sel(ci=end).values for end in ("mean", "low", "high"))
        label = ", ".join(str(value) for value in place)
        (drawn,) = ax.plot(sure[x].values, mean, marker="o", markersize=4, label=label or None)
        ax.fill_between(sure[x].values, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)
    units = data.attrs.get("units", "")
    ax.set_xlabel(x if not sure[x].attrs.get("units") else f"{x}, {sure[x].attrs['units']}")
    ax.set_ylabel(f"{data.name}, {units}" if units else str(data.name))
    ax.set_title(f"means and 95 % intervals of {data.sizes[over]} seeds", fontsize="medium")
    if others:
        ax.legend()
    return ax
