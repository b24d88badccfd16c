"""How a model of the native module is asked for every element of arrays."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from narrows import _native

Numbers = dict[str, "ArrayLike | None"]
"""Arguments by name; None is what may be left out."""
Array = NDArray[np.float64]
"""Doubles of the arguments' common shape; a number if all arguments are numbers."""
Words = NDArray[np.str_]
"""Words of the arguments' common shape."""


def split(given: Any) -> tuple[Numbers, dict[str, str]]:
    """A dataclass of arguments as numbers and words: a field annotated ``str`` is a word."""
    numbers: Numbers = {}
    words: dict[str, str] = {}
    for field in fields(given):
        (words if field.type == "str" else numbers)[field.name] = getattr(given, field.name)
    return numbers, words


def evaluate(
    name: str,
    numbers: Mapping[str, ArrayLike | None],
    rows: Mapping[str, ArrayLike] | None = None,
    words: Mapping[str, str] | None = None,
) -> tuple[Array, ...]:
    """Each figure of a model that gives a fixed number of them."""
    shape, columns = _evaluate(name, numbers, rows or {}, words or {})
    return tuple(np.asarray(column).reshape(shape)[()] for column in columns)


def evaluate_rows(
    name: str,
    numbers: Mapping[str, ArrayLike | None],
    rows: Mapping[str, ArrayLike] | None = None,
    words: Mapping[str, str] | None = None,
    parts: int = 1,
) -> tuple[Array, ...]:
    """The row of figures of a model that gives one, cut into ``parts`` of equal length; shorter rows end in NaN."""
    shape, (flat, lengths) = _evaluate(name, numbers, rows or {}, words or {})
    widths = np.asarray(lengths).astype(np.intp) // parts
    most = int(widths.max(initial=0))
    made = np.full((widths.size, parts, most), np.nan)
    inside = np.arange(most) < widths[:, None, None]
    made[np.broadcast_to(inside, made.shape)] = np.asarray(flat)
    return tuple(made[:, i].reshape(*shape, most) for i in range(parts))


def _evaluate(
    name: str,
    numbers: Mapping[str, ArrayLike | None],
    rows: Mapping[str, ArrayLike],
    words: Mapping[str, str],
) -> tuple[tuple[int, ...], Sequence[Any]]:
    arrays = {key: _doubles(key, np.nan if value is None else value) for key, value in numbers.items()}
    lists = {key: _doubles(key, value) for key, value in rows.items()}
    for key, value in lists.items():
        if value.ndim == 0:
            raise _native.refusal(key, f"= {value}: expected a row of numbers")
    widths = {value.shape[-1] for value in lists.values()}
    if len(widths) > 1 and 1 in widths:
        widths.remove(1)
    if len(widths) > 1:
        told = ", ".join(f"{key} {value.shape[-1]}" for key, value in lists.items())
        raise _native.refusal(" and ".join(lists), f"have rows of different lengths: {told}")
    try:
        shape = np.broadcast_shapes(
            *(value.shape for value in arrays.values()), *(value.shape[:-1] for value in lists.values())
        )
    except ValueError:
        told = ", ".join(f"{key} {value.shape}" for key, value in {**arrays, **lists}.items() if value.ndim)
        raise _native.refusal("shapes", f"do not fit each other: {told}") from None
    width = widths.pop() if widths else 0
    columns = [_bytes(arrays[key], shape) for key in _takes()[name]]
    of_rows = [(_bytes(value, (*shape, width)), width) for value in lists.values()]
    count = int(np.prod(shape, dtype=np.intp))
    return shape, _native.model(name, count, columns, of_rows, dict(words))


@functools.cache
def _takes() -> dict[str, list[str]]:
    """The numbers of each model, in the order in which the native module takes them."""
    return {name: numbers for name, (numbers, _, _) in _native.models()}


def _doubles(key: str, value: ArrayLike) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        kind = type(value).__name__ if array.ndim == 0 else str(array.dtype)
        raise _native.refusal(key, f"= {value!r} of type {kind}: expected a number or an array of numbers")
    return array.astype(np.float64, copy=False)


def _bytes(array: Array, shape: tuple[int, ...]) -> bytes:
    return np.broadcast_to(array, shape).tobytes()


def named(codes: Array, names: Sequence[str]) -> Words:
    """Words for the numbers that stand for them."""
    return np.asarray(names)[np.asarray(codes, dtype=np.intp)]
