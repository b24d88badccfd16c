"""How a model of the native module is asked for every element of arrays."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from narrows import _native
from narrows.quantities import EXAMPLES, QUANTITIES, measure, unit

Numbers = dict[str, "ArrayLike | None"]
"""Arguments by name; None is what may be left out."""
Array = NDArray[np.float64]
"""Doubles of the arguments' common shape; a number if all arguments are numbers, a DataArray if any of them is one."""
Words = NDArray[np.str_]
"""Words of the arguments' common shape."""
ROW = "row"
"""The dimension of a row of figures in a DataArray."""


class Model(NamedTuple):
    """A model as ``narrows_models::declared`` has it."""

    takes: Sequence[tuple[str, str]]
    """Arguments with their forms, those of a group one by one."""
    form: str
    """Form of the results."""
    figures: Sequence[tuple[str, str, Sequence[str]]]
    """Their names, units, and words that stand for numbers."""


@functools.cache
def models() -> dict[str, Model]:
    """All models by their names."""
    return {name: Model(takes, form, figures) for name, takes, form, figures in _native.models()}


def one(name: str, *given: Any) -> Array:
    """The result of a model that gives one."""
    result: Array = several(name, *given)[0]
    return result


def several(name: str, *given: Any) -> tuple[Any, ...]:
    """The results of a model; arguments in the order of its declaration, dataclasses where it has groups."""
    model = models()[name]
    numbers, rows, words = _arguments(model, given)
    names = [figure for figure, _, _ in model.figures]

    def figures(numbers: Mapping[str, ArrayLike | None]) -> tuple[Array, ...]:
        shape, columns = _evaluate(name, numbers, rows, words)
        if model.form in ("one", "yes", "tuple"):
            return tuple(np.asarray(column).reshape(shape)[()] for column in columns)
        return _rows(shape, columns, len(names) if model.form == "rows" else 1)

    if model.form in ("one", "yes", "tuple"):
        made = _labelled(figures, numbers, rows, [() for _ in names], names)
        return tuple(_in_words(array, told, model.form) for array, (_, _, told) in zip(made, model.figures))
    parts = len(names) if model.form == "rows" else 1
    made = _labelled(figures, numbers, rows, [(ROW,)] * parts, [""] * parts)
    if model.form in ("row", "rows"):
        return made
    if model.form == "records":
        each = reshaped(made[0], -1, len(names))
        return tuple(each[..., i] for i in range(len(names)))
    state = made[0]
    if model.form == "states":
        state = reshaped(state, int(np.asarray(numbers["steps"])) + 1, -1)
    return state[..., 0], state[..., 1:]


def _in_words(array: Array, words: Sequence[str], form: str) -> Any:
    if form == "yes":
        return np.asarray(array, dtype=bool)[()]
    return named(array, words) if words else array


def _arguments(model: Model, given: Sequence[Any]) -> tuple[Numbers, dict[str, ArrayLike], dict[str, str]]:
    """Numbers, rows and words by name, in the order of the declaration."""
    numbers: Numbers = {}
    rows: dict[str, ArrayLike] = {}
    words: dict[str, str] = {}
    values = iter([value for one in given for value in _members(one)])
    for key, form in model.takes:
        value = next(values)
        if form == "law":
            words[key] = type(value).__name__
            numbers |= {slot: None for slot in "abc"}
            rows["list"] = [0.0]
            slots = iter("abc")
            for name, member in zip(value._fields, value):
                into: dict[str, Any] = rows if words[key] == "Choice" else numbers
                into["list" if into is rows else next(slots)] = in_base_units(name, member)
        elif form == "grid":
            rows[key], numbers["width"] = _grid(key, value)
        elif form == "row":
            rows[key] = value
        elif form in ("word", "flag"):
            words[key] = str(value).lower() if form == "flag" else value
        else:
            numbers[key] = value
    return numbers, rows, words


def _members(given: Any) -> list[Any]:
    """Members of a dataclass; anything else alone."""
    return [getattr(given, field.name) for field in fields(given)] if is_dataclass(given) else [given]


def law(sizes: Any, laws: tuple[type, ...]) -> Any:
    """``sizes`` if it is one of the laws."""
    if not isinstance(sizes, laws):
        *some, last = (one.__name__ for one in laws)
        raise _native.refusal("sizes", f"= {sizes!r}: expected {', '.join(some)} or {last}")
    return sizes


def _grid(key: str, value: ArrayLike) -> tuple[Array, int]:
    """Rows of equal length as one row, and that length."""
    array = np.asarray(value)
    if array.ndim < 2:
        raise ValueError(f"{key}: shape {array.shape}: expected two axes or more")
    return array.reshape(*array.shape[:-2], -1), array.shape[-1]


def _rows(shape: tuple[int, ...], columns: Sequence[Any], parts: int) -> tuple[Array, ...]:
    """Rows cut into ``parts`` of equal length; shorter rows end in NaN."""
    flat, lengths = columns
    widths = np.asarray(lengths).astype(np.intp) // parts
    most = int(widths.max(initial=0))
    made = np.full((widths.size, parts, most), np.nan)
    inside = np.arange(most) < widths[:, None, None]
    made[np.broadcast_to(inside, made.shape)] = np.asarray(flat)
    return tuple(made[:, i].reshape(*shape, most) for i in range(parts))


def reshaped(row: Array, *tail: int) -> Array:
    """Rows with their last axis cut into two."""

    def cut(row: Array) -> Array:
        return row.reshape(*row.shape[:-1], *tail)

    if isinstance(row, np.ndarray):
        return cut(row)
    made: Array = sys.modules["xarray"].apply_ufunc(
        cut, row, input_core_dims=[[ROW]], output_core_dims=[[ROW, "part"]], exclude_dims={ROW}
    )
    return made


def named(codes: Array, names: Sequence[str]) -> Words:
    """Words for the numbers that stand for them."""

    def words(codes: Array) -> Words:
        return np.asarray(names)[np.asarray(codes, dtype=np.intp)]

    if not _is_labelled(codes):
        return words(codes)
    made: Words = sys.modules["xarray"].apply_ufunc(words, codes)
    return made


def _is_labelled(value: object) -> bool:
    """Whether it is a DataArray of xarray, which is loaded then."""
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(value, xarray.DataArray)


def _labelled(
    figures: Callable[[Mapping[str, ArrayLike | None]], tuple[Array, ...]],
    numbers: Mapping[str, ArrayLike | None],
    rows: Mapping[str, ArrayLike],
    dims: Sequence[tuple[str, ...]],
    names: Sequence[str],
) -> tuple[Array, ...]:
    """DataArrays from DataArrays, by the names of their dimensions; of others what ``figures`` makes."""
    labelled = [key for key, value in numbers.items() if _is_labelled(value)]
    if not labelled:
        return figures(numbers)
    for key, value in numbers.items():
        count = 0 if value is None else np.ndim(value)
        if key not in labelled and count > 0:
            problem = f"has {count} dimensions without names: expected a number or a DataArray beside {labelled[0]}"
            raise _native.refusal(key, problem)
    for key, row in rows.items():
        if np.ndim(row) != 1:
            raise _native.refusal(key, f"has {np.ndim(row)} dimensions: expected one row beside {labelled[0]}")

    def plain(*arrays: Array) -> Any:
        made = figures({**numbers, **dict(zip(labelled, arrays))})
        return made if len(made) > 1 else made[0]

    try:
        made = sys.modules["xarray"].apply_ufunc(
            plain, *(numbers[key] for key in labelled), output_core_dims=[list(d) for d in dims],
            join="exact", keep_attrs=False
        )
    except _native.ScenarioError:
        raise
    except ValueError as why:
        raise _native.refusal(" and ".join(labelled), f"do not fit each other: {why}") from None
    told = made if len(dims) > 1 else (made,)
    for array, name in zip(told, names):
        array.name = name or None
        array.attrs = {"units": unit(name)} if unit(name) else {}
    return tuple(told)


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
    columns = [_bytes(value, shape) for value in arrays.values()]
    of_rows = [(_bytes(value, (*shape, width)), width) for value in lists.values()]
    count = int(np.prod(shape, dtype=np.intp))
    return shape, _native.model(name, count, columns, of_rows, dict(words))


def in_base_units(key: str, value: ArrayLike) -> ArrayLike:
    """Words with a unit as numbers of the unit that ``key`` ends in; numbers as they are."""
    return value if _is_labelled(value) else _doubles(key, value)


def _doubles(key: str, value: ArrayLike) -> Array:
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    base = unit(key)
    if base in EXAMPLES and array.dtype.kind in "UO":
        # Not from the array of words, in which numbers are words too.
        mixed = np.asarray(value, dtype=object)
        made = np.asarray([_measured(key, word, base) for word in mixed.ravel()], dtype=np.float64)
        return made.reshape(mixed.shape)
    kind = type(value).__name__ if array.ndim == 0 else str(array.dtype)
    raise _native.refusal(key, f"= {value!r} of type {kind}: expected a number or an array of numbers")


def _measured(key: str, value: object, base: str) -> float:
    """A number of the base unit, or words with a unit, as scenario files have them."""
    number = measure(value, QUANTITIES[base])
    if number is None and isinstance(value, (int, float, np.number)):
        number = float(value)
    if number is None:
        expected = f"a number of {base}, or words as '{EXAMPLES[base]}'"
        raise _native.refusal(key, f"= {value!r} of type {type(value).__name__}: expected {expected}")
    return number


def _bytes(array: Array, shape: tuple[int, ...]) -> bytes:
    return np.broadcast_to(array, shape).tobytes()
