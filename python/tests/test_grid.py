"""The points of a sweep: their labels, and what is refused before the first is run."""

import dataclasses

import numpy
import pytest
import xarray
from few import FEW, files

import narrows


def test_the_scenario_s_own_sweep_is_swept(tmp_path):
    own = narrows.Scenario.from_toml(FEW.to_toml())
    own.sweep = {"traffic.0.flows": [5, 10], "rate": ["600kbit", "1mbit"]}
    own.seeds = "1..2"
    grid = narrows.sweep(own, cache=None)
    assert dict(grid.sizes) == {"rate": 2, "traffic.0.flows": 2, "seed": 2}
    assert grid["traffic.0.flows"].dtype.kind == "i"
    fewer = narrows.sweep(own, {"rate": ["600kbit"]}, [2], cache=None)
    assert list(fewer.sizes) == ["rate", "traffic.0.flows", "seed"]
    xarray.testing.assert_equal(fewer.isel(rate=0), grid.sel(rate=600_000, seed=[2]).transpose(..., "seed"))
    own.sweep = {"together": [{"traffic.0.flows": [5, 10], "mtu": [500, 1000]}]}
    beside = narrows.sweep(own, cache=None)
    assert dict(beside.sizes) == {"point": 2, "seed": 2}
    assert beside["mtu"].values.tolist() == [500, 1000]


@pytest.mark.parametrize(
    ("own", "over", "key", "words"),
    [
        # Equal numbers of points, so that counting them would not show the difference.
        (
            {"disciplines": ["fifo:30", "taq"], "discipline": None},
            {"disciplines": [["fifo:30", "taq"], ["red", "sfq"]]},
            "disciplines",
            r"discipline=fifo:30 at disciplines=.*, discipline=red at disciplines=",
        ),
        (
            {"sweep": {"traffic.0.flows": ["=n", "=2*n"]}, "vars": {"n": 5}},
            {"rate": ["600kbit", "1mbit"], "n": [5, 10]},
            "n",
            r"traffic.0.flows=5 at n=5, traffic.0.flows=10 at n=10",
        ),
        (
            {"disciplines": ["fifo:30", "taq"], "discipline": None},
            {"disciplines": [["fifo:30", "taq"], ["fifo:30"]]},
            "disciplines",
            r"2 points at .*, 1 points at ",
        ),
    ],
)
def test_over_changes_no_label_of_the_scenario_s_own_sweep(own, over, key, words, monkeypatch):
    monkeypatch.setattr(narrows._native, "run", lambda *_: pytest.fail("a run was begun"))
    scenario = dataclasses.replace(FEW, **own)
    with pytest.raises(ValueError, match=words) as refused:
        narrows.sweep(scenario, over, [1], cache=None)
    assert refused.value.key == key


def test_expressions_swept_here_and_there_that_do_not_touch(serial):
    """The scenario's own axis by an expression, and a variable beside it that it does not use: no refusal, right
    labels."""
    own = dataclasses.replace(FEW, sweep={"traffic.0.flows": ["=n", "=2*n"]}, vars={"n": 5, "m": 1})
    swept = narrows.sweep(own, {"m": [1, 2]}, [1], cache=None)
    assert swept["traffic.0.flows"].values.tolist() == [5, 10]
    numpy.testing.assert_array_equal(
        swept["jain_20s"].sel(m=2, seed=1), serial["jain_20s"].sel(discipline="taq", seed=1)[:2]
    )


def test_a_figure_named_as_what_is_swept_is_still_there():
    swept = narrows.sweep(FEW, {"loss": [0, 0.02]}, [1], cache=None)
    assert dict(swept.sizes) == {"loss": 2, "seed": 1}
    bare = narrows.run(FEW, 1, set={"loss": 0.02}).summary
    assert "loss" in bare
    assert float(swept["figure_loss"].sel(loss=0.02, seed=1)) == bare["loss"]
    # As a variable, and where the name put in its place is taken too.
    named = dataclasses.replace(FEW, vars={"loss": 5, "figure_loss": 1}, traffic=[narrows.Long(flows="=loss")])
    swept = narrows.sweep(named, {"vars.loss": [5], "vars.figure_loss": [1]}, [1], cache=None)
    assert "loss" in swept.data_vars and "figure_loss" not in swept.data_vars
    named.sweep = {"loss": [5, 10], "figure_loss": [1]}
    swept = narrows.sweep(named, None, [1], cache=None)
    assert dict(swept.sizes) == {"figure_loss": 1, "loss": 2, "seed": 1}
    assert "figure_figure_loss" in swept.data_vars and float(swept["figure_figure_loss"][0, 0, 0]) >= 0


@pytest.mark.parametrize(
    ("own", "over", "key"),
    [
        ({"vars": {"seed": 1}, "sweep": {"seed": [1, 2]}}, None, "seed"),
        (
            {"vars": {"point": 1}, "sweep": {"together": [{"traffic.0.flows": [5, 10], "mtu": [500, 1000]}]}},
            {"point": [1, 2]},
            "point",
        ),
    ],
)
def test_two_dimensions_of_one_name_are_refused(own, over, key, monkeypatch):
    monkeypatch.setattr(narrows._native, "run", lambda *_: pytest.fail("a run was begun"))
    with pytest.raises(ValueError, match="names two dimensions") as refused:
        narrows.sweep(dataclasses.replace(FEW, **own), over, [1, 2, 3], cache=None)
    assert refused.value.key == key


def test_labels_keep_their_types():
    swept = narrows.sweep(FEW, {"tcp.initial_window": [3, "rfc6928"]}, [1], cache=None)
    assert swept["tcp.initial_window"].values.tolist() == [3, "rfc6928"]
    assert dict(swept.sel({"tcp.initial_window": 3}).sizes) == {"seed": 1}


def test_measures_are_numbers_in_one_unit():
    over = {"rate": ["600kbit", "1.5mbit"], "rtt": ["50ms", "2s"]}
    swept = narrows.sweep(FEW, over, [1], cache=None)
    assert swept["rate"].values.tolist() == [600_000, 1_500_000]
    assert swept["rtt"].values.tolist() == [0.05, 2]
    assert [swept[key].attrs["units"] for key in over] == ["bit/s", "s"]
    assert swept["rate"].attrs["long_name"] == "rate"


def test_numpy_counts_too():
    swept = narrows.sweep(FEW, {"traffic.0.flows": numpy.linspace(5, 15, 3)}, [1], cache=None)
    assert swept["traffic.0.flows"].values.tolist() == [5, 10, 15]


def test_keys_that_change_together():
    pairs = [("200ms", "taq"), ("2s", "fifo:30")]
    swept = narrows.sweep(FEW, {("rtt", "discipline"): pairs, "mtu": [500, 1000]}, [1], cache=None)
    assert dict(swept.sizes) == {"rtt+discipline": 2, "mtu": 2, "seed": 1}
    assert swept["rtt"].dims == ("rtt+discipline",)
    assert swept["rtt"].values.tolist() == [0.2, 2]
    assert swept["discipline"].values.tolist() == ["taq", "fifo:30"]
    # The dimension has labels too, by which it is selected and drawn.
    assert swept["rtt+discipline"].values.tolist() == ["200ms, taq", "2s, fifo:30"]
    alone = narrows.run(FEW, 1, set={"rtt": "2s", "discipline": "fifo:30", "mtu": 1000}).summary
    one = swept.isel({"rtt+discipline": 1}).sel(mtu=1000, seed=1)
    assert float(one["goodput_kbps"]) == alone["goodput_kbps"]


def test_keys_that_change_to_the_same_number():
    traffic = [narrows.Long(name="a", flows=1), narrows.Long(name="b", flows=1)]
    two = narrows.Scenario(**{**vars(FEW), "traffic": traffic})
    swept = narrows.sweep(two, {("traffic.0.flows", "traffic.1.flows"): [(2, 2), (5, 5)]}, [1], cache=None)
    assert swept["traffic.0.flows+traffic.1.flows"].values.tolist() == [2, 5]
    assert swept.goodput_kbps.sel(seed=1).to_pandas().index.tolist() == [2, 5]


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
        ({"rate": ["1mbit"]}, 5.0, "seeds", "= 5.0: expected a list"),
        ({"rate": ["1mbit"]}, numpy.int64(5), "seeds", "expected a list"),
        ({"rate": ["1mbit"]}, [1.5], "seeds", "whole numbers"),
        ({"rate": ["1mbit"]}, [True], "seeds", "whole numbers"),
        ({"traffic.9.flows": [3]}, [1], "traffic.9.flows", "traffic.9.flows=3"),
        ({("rtt", "mtu"): [("200ms",)]}, [1], "rtt+mtu", "a value for each of rtt, mtu"),
        ({("rtt", "mtu"): [("200ms", 500), ("200ms", 500)]}, [1], "rtt+mtu", "twice"),
    ],
)
def test_what_cannot_be_is_refused_with_its_key(over, seeds, key, words, monkeypatch):
    monkeypatch.setattr(narrows._native, "run", lambda *_: pytest.fail("a run was begun"))
    with pytest.raises(ValueError, match=words) as refused:
        narrows.sweep(FEW, over, seeds, cache=None)
    assert refused.value.key == key
