"""Holds every object of the server to the client's own types.

The client builds its models without checking them: a missing field, a wrong type or a field it has
never heard of passes silently. Here each object is checked once more, against the very model that
the client chose for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError


class Mismatch(AssertionError):
    """An object does not fit the client's type for it."""


def check(value: Any, known: frozenset[str] = frozenset()) -> None:
    """Raises [Mismatch] if a model lacks what its class requires or has what its class does not know.

    `known` holds what is registered as newer than this client: an extra field as `Model.field`, a
    value that its model does not take as `Model.field=value`, an event as its type.
    """
    for model in models_in(value):
        if getattr(model, "type", None) not in known:
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
        type(model).model_validate(raw)
    except ValidationError as error:
        new = sorted(set(faults(error)) - known)
        if new:
            raise Mismatch(f"{', '.join(new)}: {error}\nin {raw}") from error
    unknown = sorted(set(extras(model)) - known)
    if unknown:
        raise Mismatch(f"fields that the client does not know: {', '.join(unknown)}\nin {raw}")


def faults(error: ValidationError) -> Iterator[str]:
    """Yields what is wrong, each as `Model.field=what was there`."""
    for fault in error.errors():
        value = fault["input"]
        if isinstance(value, dict):
            value = value.get("type")
        yield f"{error.title}.{fault['loc'][0]}={'null' if value is None else value}"


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
