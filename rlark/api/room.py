"""A part of the API: routes under one prefix, described alike."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer

PREFIX = "/api/v1/rlinf.io/v1alpha1"
_BEARER = Depends(HTTPBearer(auto_error=False, description="the platform's token: `rlark token show`"))


def room(tag: str, prefix: str = "", *, closed: bool = True) -> APIRouter:
    """An empty part.

    Args:
        tag: under which the document lists its routes.
        prefix: of their paths.
        closed: False where no token is needed; `rlark.api.auth` decides, this only describes it.
    """
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        dependencies=[_BEARER] if closed else [],
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )


def _operation_id(route: APIRoute) -> str:
    return route.name
