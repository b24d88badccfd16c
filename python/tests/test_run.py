"""One run: results, errors, threads, Ctrl-C."""

import numpy
import pytest

import narrows

FEW = """
name = "few"
rate = "600kbit"
rtt = "200ms"
mtu = 500
duration = "45s"
discipline = "fifo:30"
[[traffic]]
kind = "long"
flows = 10
"""


@pytest.fixture
def few(tmp_path):
    path = tmp_path / "few.toml"
    path.write_text(FEW)
    return path


def test_a_run_has_figures_tables_and_says_what_made_it(few):
    result = narrows.run(few, seed=7)
    # 600 kbit/s less the headers of 500-byte packets, and a link can carry no more.
    assert 300 < result.summary["goodput_kbps"] < 600
    assert 0 < result.summary["jain_20s"] <= 1
    assert len(result.flows) == 10
    assert result.flows is result.tables["flows"]
    assert result.manifest["seed"] == 7
    assert result.manifest["name"] == "few"
    # docs/how-to/python.md and Result.manifest list these.
    assert set(result.manifest) == {"name", "about", "seed", "scenario", "narrows", "engine", "key"}
    assert (result.manifest["narrows"], result.manifest["engine"]) == (narrows.VERSION, narrows.ENGINE)
    with pytest.raises(AttributeError, match="flowz.*flows"):
        result.flowz


def test_the_same_seed_gives_the_same(few):
    one, again, other = (narrows.run(few, seed=seed) for seed in (1, 1, 2))
    assert one.summary == again.summary
    assert one.summary != other.summary


def test_whole_numbers_of_numpy_are_seeds(few):
    result = narrows.run(few, seed=numpy.int64(2))
    assert result.manifest["seed"] == 2 and result.summary == narrows.run(few, seed=2).summary


@pytest.mark.parametrize("seed", [-1, 2**64, "1", 1.5, True, [1]])
def test_a_seed_that_is_none_is_a_value_error(few, seed):
    with pytest.raises(ValueError, match="expected a whole number from 0") as refused:
        narrows.run(few, seed=seed)
    assert refused.value.key == "seed"


@pytest.mark.parametrize("scenario", [5, {"rate": "1mbit"}, None, [narrows.Long(flows=1)]])
def test_what_is_no_scenario_is_a_value_error(scenario):
    for use in (narrows.run, narrows.expand, narrows.sweep):
        with pytest.raises(ValueError, match="expected a narrows.Scenario, or the path of a file") as refused:
            use(scenario)
        assert refused.value.key == "scenario"


@pytest.mark.parametrize("settings", [["rate"], "rate=1mbit", {1: 2}])
def test_settings_that_are_none_are_a_value_error(few, settings):
    for use in (narrows.run, narrows.expand):
        with pytest.raises(ValueError, match="set.*expected") as refused:
            use(few, set=settings)
        assert refused.value.key == "set"


def test_the_key_of_a_refused_setting_is_the_setting(few):
    for use in (narrows.run, narrows.expand):
        with pytest.raises(ValueError, match=r"few\.toml: traffic\.9\.flows") as refused:
            use(few, set={"duration": "30s", "traffic.9.flows": 3})
        assert refused.value.key == "traffic.9.flows"


def test_an_experiment_of_the_papers_runs(experiments):
    settings = {"duration": "10s", "warmup": "2s", "rate": "200kbit", "share": 20000, "discipline": "taq"}
    settings |= {"dephase": "30ms", "tcp.preset": "ns2", "tcp.rtt_sampling": "one_at_a_time"}
    settings |= {"tcp.rto_recovery": "go_back_n", "tcp.prr": "off"}
    result = narrows.run(experiments / "taq" / "fig08-taq.toml", seed=1, set=settings)
    assert result.summary["utilisation"] <= 1


def test_more_than_one_point_is_refused_with_the_remedy(experiments):
    with pytest.raises(ValueError, match=r"sweep of .*rate.*set=.*narrows\.sweep"):
        narrows.run(experiments / "taq" / "fig08-taq.toml", seed=1)


def test_points_run_by_themselves(few):
    points = narrows.expand(few, set={"seeds": "1..3", "discipline": "taq"})
    assert [p.seed for p in points] == [1, 2, 3]
    assert len({p.key for p in points}) == 3
    assert points[1].run().summary == narrows.run(few, seed=2, set={"discipline": "taq"}).summary
