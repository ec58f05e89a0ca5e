"""The controller as a Ray actor, and the handle by which the API reaches it.

Errors cross the process as plain values: what Ray makes of a raised exception has another class
and a traceback for a message.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayActorError

from rlark.errors import BY_CODE, ClusterError, RlarkError
from rlark.folder import Home
from rlark.host.clock import SystemClock
from rlark.plan.node import HeadAddress

NAME = "controller"
NAMESPACE = "rlark"
TICK_S = 0.15
IDLE_S = 1.0
PAUSE_S = 1.0
CALL_S = 120.0
RETRIES_S = 10.0
REPEATABLE = frozenset({"preview", "ready", "stop", "tensorboard"})
"""Verbs that do no harm when they are carried out twice; the others are never sent again."""

Answer = tuple[str, Any]
_logger = logging.getLogger(__name__)


class ControllerActor:
    """Holds the one Controller and its clockwork. Ray starts it again when it is killed."""

    def __init__(self, root: str, head: Mapping[str, object], attached: bool) -> None:
        """Start; calls are answered once the ledger is open and reconciled.

        Args:
            root: the state directory.
            head: `HeadAddress` as JSON.
            attached: True when the head is not ours.
        """
        self._root = root
        self._head = HeadAddress.model_validate(head)
        self._attached = attached
        self._controller: Any = None
        self._failed: RlarkError | None = None
        self._opened = threading.Event()
        self._wake = threading.Event()
        threading.Thread(target=self._keep_time, name="tick", daemon=True).start()

    def root(self) -> str:
        """Whose controller this is."""
        return self._root

    def call(self, verb: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Answer:
        """Carry out one of the controller's verbs.

        Returns:
            `("ok", value)`, or `("error", {code, message, hint, findings, details})`.
        """
        try:
            value = getattr(self._ready(verb), verb)(*args, **kwargs)
        except RlarkError as error:
            return "error", packed(error)
        except Exception as error:
            _logger.exception("%s failed", verb)
            return "error", packed(RlarkError(f"{verb} failed: {type(error).__name__}: {error}"))
        self._wake.set()
        return "ok", value

    def _ready(self, verb: str) -> Any:
        """The controller, once its ledger is open."""
        self._opened.wait(CALL_S)
        if self._controller is None:
            raise self._failed or ClusterError("The controller has not opened its ledger yet.")
        if verb.startswith("_") or verb in ("tick", "close"):
            raise RlarkError(f"{verb!r} is no verb of the controller.")
        return self._controller

    def _keep_time(self) -> None:
        while True:
            try:
                if self._controller is None:
                    self._controller = self._open()
                    self._failed = None
                    self._opened.set()
                self._controller.tick()
                pause = IDLE_S if self._controller.idle else TICK_S
            except Exception as error:
                _logger.exception("a tick failed; the next one tries again")
                if self._controller is None:
                    self._failed = error if isinstance(error, RlarkError) else RlarkError(repr(error))
                    self._opened.set()
                pause = PAUSE_S
            self._wake.wait(pause)
            self._wake.clear()

    def _open(self) -> Any:
        from rlark.cluster.on_ray.cluster import RayCluster
        from rlark.control.controller import Controller

        home, clock = Home(Path(self._root)), SystemClock()
        return Controller(home, RayCluster(self._head, home, clock, attached=self._attached), clock)


def packed(error: RlarkError) -> dict[str, Any]:
    """An error as plain values."""
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "findings": [finding.to_json() for finding in error.findings],
        "details": error.details,
    }


def unpacked(value: Mapping[str, Any]) -> RlarkError:
    """The error again, of its own class."""
    from rlark.spec.finding import Finding

    kind = BY_CODE.get(value["code"], RlarkError)
    findings = [Finding.model_validate(finding) for finding in value["findings"]]
    return kind(value["message"], hint=value["hint"], findings=findings, details=value["details"])


class RemoteCommands:
    """`rlark.api.commands.Commands` that asks the actor. Safe in any thread."""

    def __init__(self) -> None:
        """The actor is looked up at the first call, and again after it was replaced."""
        self._actor: Any = None

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        """Any verb; the controller decides which there are."""
        if verb.startswith("_"):
            raise AttributeError(verb)
        return lambda *args, **kwargs: self._call(verb, args, kwargs)

    def _call(self, verb: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        clock = SystemClock()
        until = clock.monotonic() + (RETRIES_S if verb in REPEATABLE else 0.0)
        while True:
            try:
                kind, value = self._once(verb, args, kwargs)
                break
            except ClusterError:
                if clock.monotonic() >= until:
                    raise
                clock.sleep(0.2)
        if kind == "error":
            raise unpacked(value)
        return value

    def _once(self, verb: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Answer:
        try:
            if self._actor is None:
                self._actor = ray.get_actor(NAME, namespace=NAMESPACE)
            answer: Answer = ray.get(self._actor.call.remote(verb, args, kwargs), timeout=CALL_S)
        except GetTimeoutError:
            raise ClusterError(f"The controller did not answer {verb!r} within {CALL_S:.0f} s.") from None
        except (ActorUnavailableError, ActorDiedError, RayActorError, ValueError) as error:
            self._actor = None
            raise ClusterError(
                f"The controller went away while it was asked to {verb}: {str(error).splitlines()[0]}",
                hint="it is started again within a second; look whether it was done, then try again",
            ) from error
        return answer
