"""Progress that people look at: a line, or tqdm's bar where there is one."""

import sys
import types

import pytest
from few import FEW

import narrows
from narrows import progress


class Tqdm:
    """Part of tqdm's interface that is used."""

    made = []

    def __init__(self, total, initial, desc, unit):
        self.total, self.n, self.desc, self.unit, self.closed = total, initial, desc, unit, False
        Tqdm.made.append(self)

    def update(self, by):
        self.n += by

    def close(self):
        self.closed = True


@pytest.fixture
def tqdm(monkeypatch):
    module = types.ModuleType("tqdm.auto")
    module.tqdm = Tqdm
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    monkeypatch.setattr(Tqdm, "made", [])


@pytest.fixture
def no_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


def test_a_line_without_tqdm(no_tqdm, capsys):
    narrows.sweep(FEW, seeds=[1, 2], cache=None, progress=True)
    lines = capsys.readouterr().err.strip().split("\r")
    assert lines[0].strip() == "sweep: 0 of 2 runs" and lines[-1].strip() == "sweep: 2 of 2 runs"
    assert "s left" in lines[1]


def test_a_bar_with_tqdm(tqdm, capsys):
    narrows.sweep(FEW, seeds=[1, 2], cache=None, progress=True)
    (bar,) = Tqdm.made
    assert (bar.n, bar.total, bar.desc, bar.unit, bar.closed) == (2, 2, "sweep", "run", True)
    assert capsys.readouterr().err == ""


def test_the_bar_ends_with_an_error(tqdm):
    with pytest.raises(KeyError), progress.told(True, "x") as tell:
        tell(1, 5)
        raise KeyError
    assert Tqdm.made[0].closed


def test_what_is_no_progress_is_refused():
    with pytest.raises(ValueError, match="progress = 'yes': expected True, False or a function"):
        progress.expect("yes")
