"""What all bodies of requests have in common: null is what isn't there, and an error says what a value may be."""

from __future__ import annotations

from functools import cache
from typing import Any, get_args

from pydantic import BaseModel, ValidationError, WrapValidator, model_validator
from pydantic_core import PydanticCustomError


class Body(BaseModel):
    """Some clients send null for all that they leave open. For a field that can't be null that is as if it were not there."""

    @model_validator(mode="before")
    @classmethod
    def without_nulls(cls, given: Any) -> Any:
        """Leave them away."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None or name not in _never_null(cls)}


@cache
def _never_null(cls: type[Body]) -> frozenset[str]:
    fields = cls.model_fields.items()
    return frozenset(name for name, field in fields if not field.is_required() and type(None) not in get_args(field.annotation))


def one_of(forms: str) -> WrapValidator:
    """For a field of several forms: an error names those, and not all that is wrong with the value as each of them."""

    def checked(value: Any, handler: Any) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError("form", "Input should be {forms}", {"forms": forms}) from None

    return WrapValidator(checked)
