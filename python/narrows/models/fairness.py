"""Jain's fairness index, over a whole run and over slices of it.

Jain, Chiu and Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared Computer
Systems" (DEC-TR-301, 1984); over slices of 20 s as in TAQ (EuroSys 2014), section 2.3.
"""

# Made from crates/models/src/declared: NARROWS_WRITE=1 cargo test -p narrows-models --test it python

from __future__ import annotations

from numpy.typing import ArrayLike

from narrows.models.vectorised import Array, one


def jain(shares: ArrayLike) -> Array:
    """Fairness ``(sum x)^2 / (n sum x^2)``: 1 if all are equal, 1/n if one has everything, 0 if nobody got anything.

    Args:
        shares: Amounts that each flow received, finite and 0 or more, in any one unit (0 or more), shape (...,
            flows).
    """
    return one("fairness.jain", shares)


def jain_of_slices(amounts: ArrayLike, per_slice: ArrayLike) -> Array:
    """Mean of ``jain`` over slices of time; a rest at the end is no slice.

    Args:
        amounts: Amounts that each flow received in each unit of time, shape (..., flows, units).
        per_slice: Units of time in a slice: 20 for TAQ's slices of 20 s and amounts by the second (whole, 1 or
            more).
    """
    return one("fairness.jain_of_slices", amounts, per_slice)
