"""What every section of the configuration is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Widths = Annotated[tuple[Annotated[int, Field(ge=1, le=4096)], ...], Strict(False), Field(min_length=1, max_length=8)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, and a text is never taken for a number."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
