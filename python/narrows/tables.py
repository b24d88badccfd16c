"""Dataclasses that are tables of TOML, and back."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import typing
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, Union, cast

from narrows import _native

if typing.TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> Callable[[Any], Any]:
        return lambda decorator: decorator


Number = Union[int, float, str]
"""A number, or an expression as ``"=rate/share"``."""
Time = Union[str, int, float]
"""``"50us"``, ``"200ms"``, ``"1.5s"``, ``"2min"``, ``"1h"``; where a range may stand, ``"190ms..210ms"``."""
Rate = Union[str, int]
"""``"600kbit"``, ``"1.5mbit"``, ``"1gbit"`` per second; a bare number is bit/s."""
Bytes = Union[int, str]
"""``1500``, ``"64kB"`` (64 000), ``"64KiB"`` (65 536)."""
Size = Union[str, int, "list[int | str]"]
"""A law of sizes: ``"64kB"``, ``"exp:7300"``, ``"pareto:mean=10kB,shape=1.2"``, ``"web"``, a list
(docs/reference/workloads.md)."""

C = TypeVar("C", bound=type)


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
        for key in settings:
            judge(type(self), key)
        init(self, *args, **settings)

    def __setattr__(self: Any, key: str, value: Any) -> None:
        judge(type(self), key)
        object.__setattr__(self, key, value)

    made.__init__ = __init__
    made.__setattr__ = __setattr__
    return cast(C, made)


def unknown(path: str, key: str, known: Iterable[str], file: str | None = None) -> ValueError:
    """The refusal of a key that does not exist."""
    names = sorted(known)
    near = difflib.get_close_matches(key, names, n=1)
    expected = f"{near[0]!r}?" if near else f"one of {', '.join(names)}"
    return _native.refusal(path, f"no such key: expected {expected}", file)


def key_of(field: dataclasses.Field[Any]) -> str | None:
    """What a field is called in the file; None if it is no key."""
    key: str | None = field.metadata.get("key", field.name.rstrip("_"))
    return key


def to_table(value: Any) -> Any:
    """A dataclass as a dict of keys, without those that are None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = getattr(type(value), "kind", None)
        kind = {"kind": own} if isinstance(own, str) and "kind" not in _names(type(value)) else {}
        pairs = ((key_of(f), getattr(value, f.name)) for f in dataclasses.fields(value))
        return kind | {key: to_table(v) for key, v in pairs if key is not None and v is not None}
    if isinstance(value, dict):
        return {key: to_table(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_table(v) for v in value]
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
    """Which fields hold tables or lists of them, and of which class."""
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
