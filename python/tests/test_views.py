"""Results are readable where they are seen first: as a line at a prompt, as a table in a notebook."""

import re
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from few import FEW

import narrows

ROOT = Path(__file__).parents[2]


class Cells(HTMLParser):
    """Cells of the rows of a page; refuses a tag that is not closed."""

    def __init__(self, page):
        super().__init__()
        self.open, self.rows = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


@pytest.fixture(scope="module")
def result():
    return narrows.run(FEW, 1)


def test_a_result(result):
    text = repr(result)
    assert len(text) < 300 and "\n" not in text
    assert text.startswith(f"<narrows.Result few, seed 1: goodput_kbps={result.summary['goodput_kbps']:.4g}, ")
    assert "flows (10)" in text
    rows = Cells(result._repr_html_()).rows
    figures = {row[0]: row[1:] for row in rows if len(row) == 4 and row[0] in result.summary}
    assert figures.keys() == result.summary.keys()
    assert figures["goodput_kbps"] == [
        f"{result.summary['goodput_kbps']:.4g}",
        "kbit/s",
        narrows.metrics()["goodput_kbps"].meaning,
    ]
    assert ["flows", "10", "12", ", ".join(result.flows.columns)] in rows


def test_a_table(result):
    lines = repr(result.flows).splitlines()
    assert lines[0] == "<narrows.Table flows: 10 rows, 12 columns>"
    assert all(len(line) <= 100 for line in lines) and lines[-2] == "..."
    assert lines[1].split() + lines[-1].removeprefix("and ").split(", ") == result.flows.columns
    first = next(iter(result.flows))
    assert lines[2].split()[:3] == [str(first.class_), str(first.user), f"{first.start_s:.4g}"]
    rows = Cells(result.flows._repr_html_()).rows
    assert rows[0] == result.flows.columns and len(rows) == 9
    empty = result.flows[:0]
    assert repr(empty).splitlines()[0] == "<narrows.Table flows: 0 rows, 12 columns>" and len(empty) == 0


def test_rows_of_a_table(result):
    flows = result.flows
    assert flows.shape == (10, 12) and len(flows.head()) == 5 and flows.head(99).shape == (10, 12)
    assert list(flows[2:4]) == list(flows)[2:4] and list(flows.tail(3)) == list(flows)[-3:] == list(flows[-3:])
    assert flows[3:]["user"].tolist() == flows["user"].tolist()[3:]
    assert flows[3:5].to_pandas().equals(flows.to_pandas()[3:5].reset_index(drop=True))
    with pytest.raises(TypeError, match=r"^table\[0\]: expected a column's name, a list of names, or a slice of rows"):
        flows[0]
    with pytest.raises(ValueError, match="step 2: expected rows one after another"):
        flows[::2]


def test_a_scenario(result):
    assert FEW._repr_html_() == f"<pre>{escape(FEW.to_toml())}</pre>"

    class Queue:
        pass

    assert "discipline=" in narrows.Scenario(name="<b>", discipline=Queue)._repr_html_()
    assert "&lt;b&gt;" in narrows.Scenario(name="<b>", discipline=Queue)._repr_html_()


def test_a_diagnosis(tmp_path):
    seen = narrows.run(FEW, 1, set={"duration": 20, "discipline": "fifo:10", "probes.capture": ["thin"]})
    (tmp_path / "thin.pcap").write_bytes(seen.captures["thin"])
    found = narrows.diagnose(tmp_path / "thin.pcap")
    text = repr(found)
    assert re.match(rf"<narrows.Diagnosis: {len(found.flows)} connections, {len(found.stalls)} stalls, ", text)
    assert len(text) < 300 and "\n" not in text
    page = found._repr_html_()
    assert Cells(page).rows[0] == found.flows.columns and page.startswith("<pre>")


def test_names_are_those_that_are_meant():
    shown = [name for name in dir(narrows) if not name.startswith("__")]
    assert sorted(shown) == sorted(narrows.__all__)
    assert {"annotations", "importlib", "TYPE_CHECKING", "near", "words"}.isdisjoint(shown)
