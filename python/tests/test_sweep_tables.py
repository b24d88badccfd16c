"""Tables of a sweep: the rows of its runs as they are, with what tells the runs apart in front."""

import re
from pathlib import Path

import numpy
import pytest
from few import FEW, files

import narrows
from narrows.sweeps import tables as table_files
from narrows.sweeps.store import Finished, Store

OVER = {"discipline": ["fifo:30", "taq"], "rtt": ["100ms", "200ms"]}


@pytest.mark.parametrize("executor", [None, "threads", "processes"])
def test_the_rows_are_those_of_bare_runs(executor):
    figures, tables = narrows.sweep(FEW, OVER, [1, 2], tables=["flows", "links"], executor=executor, cache=None)
    assert dict(figures.sizes) == {"discipline": 2, "rtt": 2, "seed": 2}
    flows = tables["flows"].to_pandas()
    assert flows.columns[:3].tolist() == ["discipline", "rtt", "seed"]
    assert len(flows) == 8 * 10
    bare = narrows.run(FEW, 2, set={"discipline": "taq", "rtt": "100ms"}).flows
    there = flows[(flows.discipline == "taq") & (flows.rtt == 0.1) & (flows.seed == 2)]
    for column in bare.columns:
        numpy.testing.assert_array_equal(there[column], bare[column])
    # A label that is called as a column of the table leaves the column another name.
    assert "figure_rate_bps" not in tables["links"].columns and set(tables) == {"flows", "links"}


def test_a_column_that_is_called_as_a_label_has_another_name():
    named = narrows.Scenario.from_toml(FEW.to_toml())
    named.vars, named.traffic = {"user": 3}, [narrows.Long(flows="=user")]
    _, tables = narrows.sweep(named, {"user": [2, 3]}, [1], tables=["flows"], cache=None)
    assert tables["flows"]["user"].tolist() == [2, 2, 3, 3, 3]
    assert sorted(tables["flows"]["figure_user"][2:].tolist()) == [0, 1, 2]


def test_a_table_that_some_runs_lack_has_the_rows_of_the_others():
    some = {"traffic": {"long": [narrows.Long(flows=2)], "files": [narrows.Files(flows=3, size="6kB")]}}
    _, tables = narrows.sweep(FEW, some, [1], tables=["flows", "transfers", "queue"], cache=None)
    assert set(tables["flows"]["traffic"]) == {"long"} and len(tables["flows"]) == 2
    assert set(tables["transfers"]["traffic"]) == {"files"} and len(tables["transfers"]) == 3
    assert len(tables["queue"]) == 0 and "seed" in tables["queue"].columns


def test_tables_are_kept_with_their_runs(tmp_path, monkeypatch):
    ask = {"seeds": [1, 2], "cache": tmp_path}
    narrows.sweep(FEW, **ask)
    begun = []
    bare = narrows._native.run
    monkeypatch.setattr(narrows._native, "run", lambda *asked: begun.append(asked) or bare(*asked))
    _, first = narrows.sweep(FEW, tables=["classes"], **ask)
    # A run that was kept without its tables is run once more, and then has them.
    assert len(begun) == 2 and len(files(tmp_path)) == 2
    _, again = narrows.sweep(FEW, tables=["classes"], **ask)
    assert len(begun) == 2
    assert again["classes"].to_pandas().equals(first["classes"].to_pandas())
    assert again["classes"]["name"] == ["long", "long"]
    # A file that is not whole is no table.
    spoilt = next(tmp_path.glob("*/*.table"))
    spoilt.write_bytes(spoilt.read_bytes()[:-3])
    narrows.sweep(FEW, tables=["classes"], **ask)
    assert len(begun) == 3


def test_the_store_keeps_a_table_as_it_is(tmp_path):
    table = narrows.run(FEW, 1, set={"duration": "5s", "warmup": "1s"}).flows
    (again,) = table_files.from_bytes(table_files.to_bytes(table))
    assert again.__reduce__() == table.__reduce__()
    assert table_files.from_bytes(table_files.to_bytes(None)) == (None,)
    store = Store.of(tmp_path)
    store.keep("abcd", Finished({"a": 1.0}, 0.5, {"flows": table, "queue": None}))
    found = store.find("abcd", ("flows", "queue"))
    assert found.tables["queue"] is None and len(found.tables["flows"]) == len(table)
    assert store.find("abcd", ("links",)) is None


def test_two_sweeps_on_one_folder_share_their_runs(tmp_path, monkeypatch):
    """Each waits for what the other is at, and finds it then."""
    from concurrent.futures import ThreadPoolExecutor

    from narrows.sweeps import work

    monkeypatch.setattr(work, "PAUSE", 0.01)
    begun = []
    bare = narrows._native.run
    monkeypatch.setattr(narrows._native, "run", lambda *asked: begun.append(asked[3]) or bare(*asked))
    with ThreadPoolExecutor(3) as both:
        swept = [both.submit(narrows.sweep, FEW, seeds=range(1, 13), cache=tmp_path) for _ in range(3)]
    assert sorted(begun) == list(range(1, 13))
    assert swept[0].result().equals(swept[1].result()) and swept[0].result().equals(swept[2].result())
    assert not list(tmp_path.glob("*/*.lock"))


def test_a_run_whose_worker_died_is_nobody_s(tmp_path):
    store = Store.of(tmp_path)
    with store.doing("abcd") as first, store.doing("abcd") as second, store.doing("abce") as other:
        assert (first, second, other) == (True, False, True)
    # Lock file of a run that was killed.
    store.path("abcd").with_suffix(".lock").write_bytes(b"")
    with store.doing("abcd") as again:
        assert again


def test_the_names_are_those_of_the_page():
    page = (Path(__file__).parents[2] / "docs/reference/probes.md").read_text().split("## Tables")[1]
    assert sorted(re.findall(r"^\| `(\w+)`", page, re.MULTILINE)) == list(table_files.TABLES)


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        (["flow"], r"tables: has 'flow': expected 'flows'\?"),
        (["objects"], "expected 'transfers', which has a row for each object"),
        (["stalls"], "expected 'flows' or 'transfers', whose column 'stall_s' it is"),
        ("flows", r"expected a list of names, as \['flows'\]"),
        ([3], "tables: has 3: expected one of backoffs, "),
    ],
)
def test_tables_that_are_none_are_refused(tables, words, monkeypatch):
    monkeypatch.setattr(narrows._native, "run", lambda *_: pytest.fail("a run was begun"))
    with pytest.raises(ValueError, match=words) as refused:
        narrows.sweep(FEW, tables=tables, cache=None)
    assert refused.value.key == "tables"
