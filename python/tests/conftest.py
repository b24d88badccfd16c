from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def experiments():
    """The scenario files of the repository."""
    return Path(__file__).parents[2] / "experiments"
