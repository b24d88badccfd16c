from pathlib import Path

import pytest
from few import FEW, OVER, SEEDS

import narrows


@pytest.fixture(scope="session")
def experiments():
    """The scenario files of the repository."""
    return Path(__file__).parents[2] / "experiments"


@pytest.fixture(scope="session")
def serial():
    """Result that every kind of worker must reach."""
    return narrows.sweep(FEW, OVER, SEEDS, cache=None)
