"""Jain's fairness index, over a whole run and over slices of it.

Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared Computer
Systems" (DEC-TR-301, 1984); over slices of 20 s as in TAQ (EuroSys 2014), section 2.3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, evaluate


def jain(shares: ArrayLike) -> Array:
    """``(sum x)^2 / (n sum x^2)``: 1 if all are equal, 1/n if one has everything, 0 if nobody got anything.

    Args:
        shares: what each flow got, shape (..., flows), finite and 0 or more, in any one unit.
    """
    return evaluate("fairness::jain", {}, {"shares": shares})[0]


def jain_of_slices(amounts: ArrayLike, per_slice: int) -> Array:
    """The mean of :func:`jain` over slices of time; what is left over at the end is no slice.

    Args:
        amounts: what each flow got in each unit of time, shape (..., flows, units).
        per_slice: units of time in a slice: 20 for TAQ's 20 s and amounts by the second.
    """
    array = np.asarray(amounts)
    if array.ndim < 2:
        raise ValueError(f"amounts: shape {array.shape}: expected (..., flows, units of time)")
    flows, units = array.shape[-2:]
    rows = array.reshape(*array.shape[:-2], flows * units)
    return evaluate("fairness::jain_of_slices", {"units": units, "per_slice": per_slice}, {"amounts": rows})[0]
