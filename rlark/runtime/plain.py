"""States on disk: pickles that hold numbers, texts, arrays and plain containers, and can hold nothing else.

A pickle may name any function for its reader to call. A checkpoint can come from another Job or
another machine, so what is read here may name only what builds arrays and containers; what is
written is read back at once, so that a state that nobody could load is found before it is needed.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

ALLOWED = frozenset(
    {
        ("builtins", "bytearray"),
        ("builtins", "complex"),
        ("builtins", "frozenset"),
        ("builtins", "set"),
        ("collections", "OrderedDict"),
        ("collections", "deque"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        *((f"numpy.{core}.multiarray", name) for core in ("_core", "core") for name in ("_reconstruct", "scalar")),
        *((f"numpy.{core}.numeric", "_frombuffer") for core in ("_core", "core")),
    }
)


class NotPlain(ValueError):
    """A pickle names something that is no array and no plain value."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What a name in the pickle stands for."""
        if (module, name) not in ALLOWED:
            raise NotPlain(f"it names {module}.{name}; only numbers, texts, numpy arrays and containers are read")
        return super().find_class(module, name)


def dumps(value: object) -> bytes:
    """A state as bytes.

    Raises:
        NotPlain: it holds more than plain values and arrays.
    """
    data = pickle.dumps(value, protocol=5)
    loads(data)
    return data


def loads(data: bytes) -> Any:
    """A state from bytes of `dumps`.

    Raises:
        NotPlain: they name something else; nothing of it was called.
        ValueError: they are no pickle.
    """
    try:
        return _Reader(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # a broken pickle raises nearly anything
        raise ValueError(f"it cannot be read: {type(error).__name__}: {error}") from error
