"""TCP on links too thin for it: the simulator of Narrows from Python.

>>> import narrows
>>> result = narrows.run("experiments/taq/fig08-taq.toml", seed=1, set={"discipline": "taq", ...})
>>> result.summary["jain_20s"]
>>> polars.DataFrame(result.flows)

``docs/python.md`` tells the rest.
"""

from narrows._native import ENGINE, VERSION, Column, ScenarioError, Stop, Table
from narrows.results import Result
from narrows.runs import Point, expand, run

__version__ = VERSION

__all__ = ["ENGINE", "VERSION", "Column", "Point", "Result", "ScenarioError", "Stop", "Table", "expand", "run"]
