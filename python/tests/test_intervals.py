"""Means over seeds with their 95 % intervals, against numbers worked by hand."""

import numpy as np
import pytest
import xarray
from few import FEW

import narrows

# Means 2 and 5, standard deviations 1 and 0; Student's t with two degrees of freedom is 4.303.
FIGURE = xarray.DataArray(
    [[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]],
    dims=("queue", "seed"),
    coords={"queue": ["a", "b"], "seed": [1, 2, 3]},
    name="wait_s",
    attrs={"units": "s"},
)
HALF = 4.3027 / 3**0.5


def test_of_a_figure():
    sure = narrows.ci(FIGURE)
    assert sure.dims == ("queue", "ci") and sure.ci.values.tolist() == ["mean", "low", "high"]
    np.testing.assert_allclose(sure.sel(queue="a"), [2, 2 - HALF, 2 + HALF], rtol=1e-4)
    assert sure.sel(queue="b").values.tolist() == [5, 5, 5]
    assert sure.attrs["units"] == "s" and sure.name == "wait_s"


def test_seeds_without_a_number_are_left_out():
    # Values 1 and 3 have mean 2, standard deviation sqrt(2) and t = 12.706: the interval is 12.706 to either side.
    sure = narrows.ci(FIGURE.where(FIGURE.seed != 2))
    np.testing.assert_allclose(sure.sel(queue="a"), [2, 2 - 12.706, 2 + 12.706], rtol=1e-4)
    alone = narrows.ci(FIGURE.where(FIGURE.seed == 2))
    assert alone.sel(queue="a", ci="mean") == 2 and np.isnan(alone.sel(queue="a", ci="low"))


def test_of_a_sweep_it_is_that_of_the_command():
    grid = narrows.sweep(FEW, {"flows": [5, 10]}, seeds="1..4", set={"discipline": "fifo:10"}, cache=None)
    sure = narrows.ci(grid)
    assert isinstance(sure, xarray.Dataset) and dict(sure.sizes) == {"flows": 2, "ci": 3}
    values = grid.goodput_kbps.sel(flows=5).values
    # t with three degrees of freedom: 3.182.
    half = 3.1824 * values.std(ddof=1) / 2
    np.testing.assert_allclose(float(sure.goodput_kbps.sel(flows=5, ci="high")) - values.mean(), half, rtol=1e-4)


def test_a_table():
    table = narrows.ci_table(FIGURE)
    assert table.loc["a", "wait_s"] == "2 ±2.5" and table.loc["b", "wait_s"] == "5 ±0"
    wide = narrows.ci_table(FIGURE.expand_dims(rate=[1, 2]).transpose("rate", "queue", "seed"))
    assert wide.columns.tolist() == ["a", "b"] and wide.index.tolist() == [1, 2] and wide.loc[2, "a"] == "2 ±2.5"


def test_a_plot():
    figure = FIGURE.expand_dims(flows=[10, 20])
    ax = narrows.ci_plot(figure, "flows")
    assert len(ax.lines) == 2 and [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert ax.lines[0].get_ydata().tolist() == [2, 2]
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([band.min(), band.max()], [2 - HALF, 2 + HALF], rtol=1e-4)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("flows", "wait_s, s")


def test_what_cannot_be():
    with pytest.raises(ValueError, match="over = 'seeds': no such dimension: expected 'seed'"):
        narrows.ci(FIGURE, "seeds")
    with pytest.raises(ValueError, match="x = 'flow': no such dimension: expected one of queue"):
        narrows.ci_plot(FIGURE, "flow")
