"""Holds every object of the server to the client's own types.

The client builds its models without checking them: a missing field, a wrong type or a field it has
never heard of passes silently. Here each object is checked once more, against the very model that
the client chose for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel


class Mismatch(AssertionError):
    """An object does not fit the client's type for it."""


def check(value: Any, known: frozenset[str] = frozenset()) -> None:
    """Raises [Mismatch] if a model lacks what its class requires or has what its class does not know.

    `known` names the extra fields that are registered, each as `Model.field`.
    """
    for model in models_in(value):
        check_model(model, known)


def models_in(value: Any) -> Iterator[BaseModel]:
    """Yields the models at the top of a value."""
    if isinstance(value, BaseModel):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from models_in(item)


def check_model(model: BaseModel, known: frozenset[str]) -> None:
    raw = model.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    try:
        parsed = type(model).model_validate(raw)
    except ValueError as error:
        raise Mismatch(f"{type(model).__name__}: {error}\nin {raw}") from error
    unknown = sorted(set(extras(parsed)) - known)
    if unknown:
        raise Mismatch(f"fields that the client does not know: {', '.join(unknown)}\nin {raw}")


def extras(value: Any) -> Iterator[str]:
    """Yields the fields that no class declares, at any depth, each as `Model.field`."""
    if isinstance(value, BaseModel):
        for name in value.model_extra or {}:
            # The client itself hangs the request id onto what it returns.
            if not name.startswith("_"):
                yield f"{type(value).__name__}.{name}"
        for name in type(value).model_fields:
            yield from extras(getattr(value, name, None))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from extras(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from extras(item)
