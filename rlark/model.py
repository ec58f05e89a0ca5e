"""The base of every model that is written to a file or sent over HTTP."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """Frozen, strict about names, snake_case in code and camelCase in files and answers."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        ser_json_inf_nan="null",
    )

    def to_json(self) -> dict[str, object]:
        """The model as plain JSON values under its names on the wire."""
        return self.model_dump(mode="json", by_alias=True)


class StoredModel(Model):
    """A model that reads what an older or newer rlark stored: unknown names are ignored."""

    model_config = ConfigDict(extra="ignore")


class Written(Model):
    """A part of what people write: a text is never taken for a number, nor NaN for one."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, validate_by_name=False)
