"""Numbers with their bounds, and ranges of them, as models of this room declare them."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, Strict

Pair = TypeVar("Pair", bound=tuple[float, float])


def ascending(pair: Pair) -> Pair:
    """Refuse a range that is written the wrong way round."""
    if pair[0] > pair[1]:
        raise ValueError(f"the range [{pair[0]}, {pair[1]}] ends below its start: write [min, max]")
    return pair


Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
NotPositive = Annotated[float, Field(le=0)]
Share = Annotated[float, Field(ge=0, le=1)]
PositiveShare = Annotated[float, Field(gt=0, le=1)]
Range = Annotated[tuple[float, float], Strict(False), AfterValidator(ascending)]
PositiveRange = Annotated[tuple[Positive, Positive], Strict(False), AfterValidator(ascending)]
NotNegativeRange = Annotated[tuple[NotNegative, NotNegative], Strict(False), AfterValidator(ascending)]
ShareRange = Annotated[tuple[Share, Share], Strict(False), AfterValidator(ascending)]
PositiveShareRange = Annotated[tuple[PositiveShare, PositiveShare], Strict(False), AfterValidator(ascending)]
