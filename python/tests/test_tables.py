"""Tables: Arrow for pyarrow, pandas and polars, and numpy without any of them, all upon the same bytes."""

import pickle

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import narrows
from narrows.results import make_table

SCENARIO = narrows.Scenario(
    name="few",
    rate="600kbit",
    rtt="200ms",
    mtu=500,
    duration="45s",
    discipline="fifo:30",
    traffic=[narrows.Objects(users=10, size="web")],
    probes=narrows.Probes(series=["queue"]),
)


@pytest.fixture(scope="module")
def result():
    return narrows.run(SCENARIO, 1)


@pytest.fixture(scope="module")
def made():
    return make_table("made", {"n": [1, 2, 3], "x_s": [0.5, float("nan"), 2.0], "word": ["a", "", "ü"]})


def address(array):
    return array.__array_interface__["data"][0]


def test_a_table_made_by_hand(made):
    assert (made.name, len(made), made.columns) == ("made", 3, ["n", "x_s", "word"])
    assert "n" in made and "m" not in made
    arrow = pyarrow.table(made)
    assert arrow.schema.names == ["n", "x_s", "word"]
    assert arrow.schema.types == [pyarrow.uint64(), pyarrow.float64(), pyarrow.large_string()]
    # A measure there is none of is a null in Arrow, as in Parquet and CSV, and NaN in numpy.
    assert arrow.to_pydict() == {"n": [1, 2, 3], "x_s": [0.5, None, 2.0], "word": ["a", "", "ü"]}
    np.testing.assert_array_equal(made["x_s"], [0.5, np.nan, 2.0])
    assert made["word"] == ["a", "", "ü"]
    assert made.column("x_s").to_list() == [0.5, None, 2.0]


def test_what_no_column_holds_is_refused():
    with pytest.raises(ValueError, match="when.*datetime"):
        make_table("t", {"when": np.array(["2020-01-01"], dtype="datetime64[s]")})
    with pytest.raises(ValueError, match="below.*negative"):
        make_table("t", {"below": [-1]})
    with pytest.raises(ValueError, match="b.*1.*2"):
        make_table("t", {"a": [1, 2], "b": [1]})
    with pytest.raises(ValueError, match="square.*one dimension"):
        make_table("t", {"square": np.zeros((2, 2))})


def test_every_reader_sees_the_same_numbers(result):
    assert len(result.transfers) > 20
    for name, table in result.tables.items():
        arrow, frame = pyarrow.table(table), polars.DataFrame(table)
        for column in table.columns:
            values = table.column(column).to_list()
            assert arrow[column].to_pylist() == values, (name, column)
            assert frame[column].to_list() == values, (name, column)


def arrow_address(array):
    """Where the values of an Arrow array lie."""
    return (array.chunk(0) if isinstance(array, pyarrow.ChunkedArray) else array).buffers()[1].address


def test_numbers_are_not_copied(result):
    table = result.transfers
    arrow, in_polars = pyarrow.table(table), polars.DataFrame(table)
    in_pandas = arrow.to_pandas(types_mapper=pandas.ArrowDtype)
    numbers = [c for c in table.columns if isinstance(table[c], np.ndarray)]
    assert {"size_bytes", "done_s"} <= set(numbers)
    for column in numbers:
        here = address(table[column])
        assert address(table[column]) == here
        assert arrow_address(arrow[column]) == here
        assert arrow_address(pyarrow.array(in_pandas[column])) == here
        assert arrow_address(in_polars[column].to_arrow()) == here


def test_a_million_rows_are_not_copied():
    count = 1_000_000
    big = make_table("big", {"n": np.arange(count, dtype="uint64"), "x_s": np.arange(count) / 8})
    arrow, in_polars, in_pandas = pyarrow.table(big), polars.DataFrame(big), big.to_pandas()
    in_arrow_pandas = arrow.to_pandas(types_mapper=pandas.ArrowDtype)
    for column in ("n", "x_s"):
        here = address(big[column])
        assert len(big[column]) == count and arrow[column].num_chunks == 1
        seen = {
            "pyarrow": arrow_address(arrow[column]),
            "numpy of pyarrow": address(arrow[column].chunk(0).to_numpy(zero_copy_only=True)),
            "polars": arrow_address(in_polars[column].to_arrow()),
            "numpy of polars": address(in_polars[column].to_numpy()),
            "pandas": address(in_pandas[column].to_numpy()),
            "pandas of Arrow": arrow_address(pyarrow.array(in_arrow_pandas[column])),
        }
        assert seen == dict.fromkeys(seen, here)
    assert in_polars["x_s"][count - 1] == in_pandas["x_s"].iloc[-1] == (count - 1) / 8


def test_pandas_takes_tables(result, made):
    table = result.transfers
    for frame in (table.to_pandas(), pandas.DataFrame(table)):
        assert list(frame.columns) == table.columns and len(frame) == len(table)
        np.testing.assert_array_equal(frame["size_bytes"], table["size_bytes"])
    assert np.shares_memory(table.to_pandas()["size_bytes"].to_numpy(), table["size_bytes"])
    assert pandas.DataFrame(made)["word"].tolist() == ["a", "", "ü"]


def test_a_table_is_its_columns_by_name(made):
    assert made.keys() == list(dict(made)) == ["n", "x_s", "word"]
    assert [row.n for row in made] == [1, 2, 3]
    assert list(made)[1] == (2, None, "")
    two = made[["word", "n"]]
    assert two.columns == ["word", "n"] and len(two) == 3
    assert address(two["n"]) == address(made["n"])
    with pytest.raises(KeyError, match="m: no such column"):
        made[["n", "m"]]
    with pytest.raises(KeyError, match="wrod: no such column: expected 'word'?"):
        made["wrod"]


def test_memory_outlives_the_result():
    result = narrows.run(SCENARIO, 1)
    sizes, expected = result.transfers["size_bytes"], result.transfers["size_bytes"].copy()
    frame = polars.DataFrame(result.transfers)
    del result
    np.testing.assert_array_equal(sizes, expected)
    np.testing.assert_array_equal(frame["size_bytes"].to_numpy(), expected)
    with pytest.raises(ValueError, match="read-only"):
        sizes[0] = 1


def test_an_empty_table_is_a_table(result):
    empty = make_table("none", {"n": np.zeros(0, dtype=np.uint64), "x": np.zeros(0), "w": []})
    assert pyarrow.table(empty).num_rows == 0
    assert polars.DataFrame(empty).shape == (0, 3)
    assert pickle.loads(pickle.dumps(empty)).columns == ["n", "x", "w"]


def test_results_pickle(result):
    again = pickle.loads(pickle.dumps(result))
    assert again.summary == result.summary
    assert again.manifest == result.manifest
    assert again.tables.keys() == result.tables.keys()
    for name, table in result.tables.items():
        assert pyarrow.table(again.tables[name]).equals(pyarrow.table(table)), name


def test_a_column_that_is_not_there_is_a_key_error(made):
    with pytest.raises(KeyError, match="m: no such column: expected one of n, x_s, word"):
        made["m"]
