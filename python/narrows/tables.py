"""Dataclasses that are tables of TOML, and back."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Union, cast

import numpy as np

from narrows import _native
from narrows.near import one_of
from narrows.quantities import with_unit

if typing.TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[Any], Any]:
        return lambda decorator: decorator


Number = Union[int, float, str]
"""A number, or an expression as ``"=rate/share"``."""
Time = Union[str, int, float]
"""``"50us"``, ``"200ms"``, ``"1.5s"``, ``"2min"``, ``"1h"``, or a number of seconds; where a range may stand,
``"190ms..210ms"``."""
Rate = Union[str, int, float]
"""``"600kbit"``, ``"1.5mbit"``, ``"1gbit"`` per second, or a number of bit/s."""
Bytes = Union[int, str]
"""``1500``, ``"64kB"`` (64 000), ``"64KiB"`` (65 536)."""
Size = Union[str, int, "list[int | str]"]
"""A law of sizes: ``"64kB"``, ``"exp:7300"``, ``"pareto:mean=10kB,shape=1.2"``, ``"web"``, a list
(docs/reference/workloads.md)."""

C = TypeVar("C", bound=type)
T = TypeVar("T")


class Default:
    """A field's value that nobody gave: it is told, and is no key of the file."""

    plain: Any


class _Text(Default, str):
    pass


class _Number(Default, int):
    def __repr__(self) -> str:
        return repr(self.plain)

    __str__ = __repr__


def default(value: T) -> T:
    """Default of a field: the value that the reader of the files takes if the key is missing."""
    made: Any = _Text(value) if isinstance(value, str) else _Number(cast(int, value))
    made.plain = value
    return cast(T, made)


@dataclass_transform(kw_only_default=True)
def table(cls: C) -> C:
    """A dataclass whose fields are keys of a table.

    One that does not exist is refused by a ``ValueError`` with its name, given or assigned.
    """
    made: Any = dataclasses.dataclass(kw_only=True)(cls)
    init = made.__init__

    def judge(own: type, key: str) -> None:
        if key not in _names(own):
            raise unknown(f"{own.__name__}.{key}", key, _names(own))

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **settings: Any) -> None:
        if args:
            name, first = type(self).__name__, next(key for key in type(self).__annotations__ if key != "kind")
            raise TypeError(f"{name}({args[0]!r}): expected keywords, as {name}({first}={args[0]!r})")
        for key in settings:
            judge(type(self), key)
        init(self, *args, **settings)

    def __setattr__(self: Any, key: str, value: Any) -> None:
        judge(type(self), key)
        object.__setattr__(self, key, value)

    def __repr__(self: Any) -> str:
        # Without a hundred keys that nobody gave.
        pairs = ((f.name, getattr(self, f.name)) for f in dataclasses.fields(self) if f.repr)
        given = (f"{key}={value!r}" for key, value in pairs if value is not None and not isinstance(value, Default))
        return f"{type(self).__name__}({', '.join(given)})"

    made.__init__ = __init__
    made.__repr__ = __repr__
    made.__setattr__ = __setattr__
    made.__doc__ = _Documented(inspect.cleandoc(made.__doc__))
    return cast(C, made)


class _Documented:
    """The docstring of a table: what it is and, for ``help()`` and notebooks, what each field is."""

    def __init__(self, about: str) -> None:
        self.about = about

    def __get__(self, instance: object, owner: type) -> str:
        return _document(owner, self.about)


@functools.cache
def _document(cls: type, about: str) -> str:
    told: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        told |= _field_docs(base)
    names = [f.name for f in dataclasses.fields(cls) if f.name in told]
    wrap = functools.partial(textwrap.fill, width=110, initial_indent="    ", subsequent_indent="        ")
    lines = [wrap(f"{name}: {' '.join(told[name].split())}") for name in names]
    return "\n".join([about, "", "Fields:", *lines]) if lines else about


def _field_docs(cls: type) -> dict[str, str]:
    """The string below each field in the source, where editors look too; none where there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError, SyntaxError):
        return {}
    body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
    return {
        field.target.id: words.value.value
        for field, words in zip(body, body[1:])
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(words, ast.Expr)
        and isinstance(words.value, ast.Constant)
        and isinstance(words.value.value, str)
    }


def unknown(path: str, key: str, known: Iterable[str], file: str | None = None) -> ValueError:
    """The refusal of a key that does not exist."""
    return _native.refusal(path, f"no such key: expected {one_of(key, sorted(known), most=1000)}", file)


def key_of(field: dataclasses.Field[Any]) -> str | None:
    """Key of a field in the file; None if the field is no key."""
    key: str | None = field.metadata.get("key", field.name.rstrip("_"))
    return key


def to_table(value: Any) -> Any:
    """A dataclass as a dict of keys, without those that are None or that nobody gave."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = getattr(type(value), "kind", None)
        kind = {"kind": own} if isinstance(own, str) and "kind" not in _names(type(value)) else {}
        pairs = ((key_of(f), getattr(value, f.name)) for f in dataclasses.fields(value))
        given = ((k, v) for k, v in pairs if v is not None and not isinstance(v, Default))
        units = units_of(type(value))
        return kind | {key: with_unit(to_table(v), units.get(key)) for key, v in given if key is not None}
    if isinstance(value, Default):
        return value.plain
    if isinstance(value, dict):
        return {key: to_table(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_table(v) for v in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value


def from_table(cls: type, values: Any, path: str, file: str | None) -> Any:
    """A dataclass from a dict of keys; what is no table is left as it is, for the reader of the file to refuse."""
    if not isinstance(values, dict):
        return values
    values = dict(values)
    below: list[Any] = cls.__subclasses__()
    subclasses = {c.kind: c for c in below}
    if subclasses:
        kind = values.pop("kind", None)
        if kind not in subclasses:
            problem = f"= {kind!r}: expected one of {', '.join(subclasses)}" if kind else "is missing: expected one"
            raise _native.refusal(f"{path}kind", problem, file)
        cls = subclasses[kind]
    fields = {key_of(f): f for f in dataclasses.fields(cls)}
    for key in values:
        if key not in fields:
            raise unknown(f"{path}{key}", key, (k for k in fields if k is not None), file)
    settings = {fields[key].name: _inner(cls, fields[key].name, v, f"{path}{key}.", file) for key, v in values.items()}
    return cls(**settings)


@functools.cache
def units_of(cls: type) -> dict[str, str]:
    """Units of the keys of a table that are times or rates, by what the fields say they are."""
    units = {}
    for field in dataclasses.fields(cls):
        kind = re.match(r"(?:list\[)?(Time|Rate)\b", str(field.type))
        if kind is not None and (key := key_of(field)) is not None:
            units[key] = {"Time": "s", "Rate": "bit/s"}[kind[1]]
    return units


def tables_of(cls: type) -> dict[str, type]:
    """Tables within a table, by key."""
    return {key: _tables(cls)[f.name] for f in dataclasses.fields(cls) if f.name in _tables(cls) and (key := key_of(f))}


def _inner(cls: type, name: str, value: Any, path: str, file: str | None) -> Any:
    inner = _tables(cls).get(name)
    if inner is None:
        return value
    if isinstance(value, list):
        return [from_table(inner, v, f"{path}{i}.", file) for i, v in enumerate(value)]
    return from_table(inner, value, path, file)


@functools.cache
def _names(cls: type) -> frozenset[str]:
    return frozenset(f.name for f in dataclasses.fields(cls))


@functools.cache
def _tables(cls: type) -> dict[str, type]:
    """Fields that hold tables or lists of tables, with the class of each."""
    found = {}
    for name, hint in typing.get_type_hints(cls).items():
        for part in _parts(hint):
            if isinstance(part, type) and dataclasses.is_dataclass(part):
                found[name] = part
    return found


def _parts(hint: Any) -> Iterable[Any]:
    yield hint
    for part in typing.get_args(hint):
        yield from _parts(part)
