"""What `ray start` calls (RAY_START_HOOK) before it starts a head: leave out what nobody here needs.

Runs inside `ray start` and imports nothing of Ray.
"""

from __future__ import annotations

from typing import Any


def lean(ray_params: Any, head: bool) -> None:
    """Start no Ray Client server (a port and a process) and no autoscaler monitor.

    Args:
        ray_params: Ray's `RayParams`, changed in place.
        head: True for `ray start --head`; a node that joins has neither.
    """
    if head:
        ray_params.ray_client_server_port = None
        ray_params.no_monitor = True
