"""The operating point of scenarios."""

from __future__ import annotations

from typing import Any

import numpy as np

from narrows import _native
from narrows.models.operating import Bottleneck, OperatingPoint, operating_point
from narrows.quantities import unit


def of_scenario(scenario: Any, over: Any = None, set: Any = None) -> OperatingPoint:
    """The operating point of a scenario, or of each point of a grid: :meth:`narrows.Scenario.operating_point`."""
    from narrows.sweeps.grid import Grid

    grid = Grid.of(scenario, over, [1], set)
    axes = grid.axes[:-1]
    points = []
    for run in grid.runs:
        try:
            link = Bottleneck(**_native.bottleneck(run.scenario, run.file))
        except _native.ScenarioError as why:
            where = f" (at {run.where})" if axes else ""
            raise _native.refusal(why.key, f"{why.problem}{where}", why.file) from None
        points.append(operating_point(link))
    if not axes:
        return points[0]
    import xarray

    shape, dims = [len(axis) for axis in axes], [axis.name for axis in axes]
    coords = grid.coords(axes)
    figures: dict[str, Any] = {}
    for name in OperatingPoint._fields:
        values = np.reshape([getattr(point, name) for point in points], shape)
        figures[name] = xarray.DataArray(values, coords, dims, name, _attributes(name))
    return OperatingPoint(**figures)


def _attributes(name: str) -> dict[str, str]:
    return {"units": unit(name)} if unit(name) else {}
