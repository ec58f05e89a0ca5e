"""What `ray start` calls (RAY_START_HOOK) before it starts a head: leave out, and do not wait.

Runs inside `ray start`, the only place where Ray lets us in. It imports nothing of Ray itself:
what it changes hangs on modules that are loaded by then.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

_JOIN_S = 120.0


def lean(ray_params: Any, head: bool) -> None:
    """Start no Ray Client server and no autoscaler monitor, and start dashboard and raylet side by side.

    Args:
        ray_params: Ray's `RayParams`, changed in place.
        head: True for `ray start --head`.
    """
    ray_params.ray_client_server_port = None
    ray_params.no_monitor = True
    node = sys.modules.get("ray._private.node")
    if head and node is not None:
        _side_by_side(node.Node)


def _side_by_side(node: Any) -> None:
    """Let the head's raylet start while its dashboard still imports: 1.5 s of 4.7 on two cores.

    Ray 2.60 starts the dashboard, waits until it answers, and only then starts the raylet. Neither
    needs the other. A failure of the dashboard still fails `ray start`, with the same words.
    """
    start_dashboard: Callable[..., None] | None = getattr(node, "start_api_server", None)
    start_rest: Callable[..., None] | None = getattr(node, "start_ray_processes", None)
    if start_dashboard is None or start_rest is None:
        return  # another Ray: one after the other, then
    failed: list[BaseException] = []
    waiting: list[threading.Thread] = []

    def start_api_server(self: Any, **options: Any) -> None:
        def attempt() -> None:
            try:
                start_dashboard(self, **options)
            except BaseException as error:  # noqa: BLE001 - raised again by the main thread
                failed.append(error)

        waiting.append(threading.Thread(target=attempt, daemon=True))
        waiting[-1].start()

    def start_ray_processes(self: Any) -> None:
        start_rest(self)
        for thread in waiting:
            thread.join(_JOIN_S)
        if failed:
            raise failed[0]

    node.start_api_server = start_api_server
    node.start_ray_processes = start_ray_processes
