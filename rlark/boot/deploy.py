"""Controller and API onto a Ray cluster: one detached actor, one Serve application."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.schema import LoggingConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rlark.boot.controller import NAME, NAMESPACE, ControllerActor, RemoteCommands
from rlark.boot.state import answers
from rlark.errors import ClusterError, ConflictError
from rlark.folder import Home
from rlark.host import process
from rlark.plan.node import HeadAddress

if TYPE_CHECKING:
    from fastapi import FastAPI

APP = "rlark"
READY_S = 60.0
LEFT_GRACE_S = 1.0
ONGOING = 1000  # every follower holds a request; Serve's own limit is 5


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """This process as a driver of the cluster.

    Args:
        address: `host:port` of its GCS; whoever calls has seen that it listens.

    Raises:
        ClusterError: Ray does not let us in.
    """
    logging.getLogger("ray.serve").setLevel(logging.WARNING)  # its progress is ours to tell
    try:
        context = ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, RayError) as error:
        raise ClusterError(
            f"Ray at {address} does not let us in: {error}",
            hint="is the token right (RAY_AUTH_TOKEN_PATH), and does a Ray node run on this machine?",
        ) from error
    try:
        yield context
    finally:
        ray.shutdown()


def deploy(home: Home, head: HeadAddress, host: str, port: int, *, attached: bool) -> int:
    """Start controller and API, or find them as they are.

    Args:
        home: the state directory.
        head: goes into every lease.
        host: where Serve's proxy listens, if Serve does not run yet.
        port: its port.
        attached: True when the head is not ours.

    Returns:
        The port on which the API is reached.

    Raises:
        ClusterError: something did not start; with Ray's reason.
        ConflictError: another platform, or another application, is there already.
    """
    here = ray.get_runtime_context().get_node_id()
    controller = _controller(home, head, here, attached)
    try:
        with ThreadPoolExecutor(1) as side:
            # `serve.start` waits for the proxy, which the application does not need in order to start
            proxy = side.submit(serve.start, proxy_location="HeadOnly", http_options={"host": host, "port": port})
            while not (serve_runs() or proxy.done()):
                time.sleep(0.02)
            _check_owner(_root(controller), home)
            serve.run(_application(home, here, host), name=APP, route_prefix="/")
            proxy.result()
    except (RayError, RayServeException, RuntimeError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"The API did not start on Ray Serve: {error}",
            hint="end what is there and try again: rlark down --force; on a Ray cluster that is not rlark's own, "
            "no other application may stand at the prefix /",
        ) from error
    return _port(port)


def _controller(home: Home, head: HeadAddress, node_id: str, attached: bool) -> Any:
    """The actor, pinned to this node, where the state directory is. It never repeats a call by itself."""
    kind = ray.remote(ControllerActor)
    return kind.options(
        name=NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=0,
        max_restarts=-1,
        max_task_retries=0,
        max_concurrency=16,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
    ).remote(str(home.root), head.to_json(), attached)


def owner() -> str | None:
    """The state directory of the platform that is on the cluster; None where there is none.

    Raises:
        ClusterError: its controller does not answer.
    """
    try:
        return _root(ray.get_actor(NAME, namespace=NAMESPACE))
    except ValueError:
        return None
    except RayError as error:
        raise ClusterError(f"The controller that is on this Ray cluster does not answer: {error}") from error


def _root(controller: Any) -> str:
    return str(ray.get(controller.root.remote(), timeout=READY_S))


def is_ours(home: Home) -> bool:
    """Whether this state directory's platform is on the cluster already, in whole or in part.

    Raises:
        ClusterError: its controller does not answer.
        ConflictError: another platform is.
    """
    there = owner()
    if there is not None:
        _check_owner(there, home)
    return there is not None


def _check_owner(there: str, home: Home) -> None:
    if there != str(home.root):
        raise ConflictError(
            f"This Ray cluster already has a platform, of the state directory {there}.",
            hint=f"use that one (--home {there}), or end it first: rlark down --home {there}",
        )


def _application(home: Home, node_id: str, host: str) -> Any:
    root = str(home.root)

    def build() -> FastAPI:
        from rlark.api.app import build_app
        from rlark.control.reader import LedgerReader

        folder = Home(Path(root))
        return build_app(RemoteCommands(), LedgerReader(folder), folder, hosts=[host])

    api = serve.deployment(
        serve.ingress(build)(),
        name="api",
        num_replicas=1,
        max_ongoing_requests=ONGOING,
        ray_actor_options={"num_cpus": 0, "label_selector": {"ray.io/node-id": node_id}},
        graceful_shutdown_timeout_s=2,
        health_check_period_s=2,
        health_check_timeout_s=10,
        logging_config=LoggingConfig(enable_access_log=False),
    )
    return api.bind()


def _port(asked: int) -> int:
    """Where Serve really listens: an attached cluster may have had a Serve of its own."""
    from ray.serve.context import _get_global_client

    client = _get_global_client(raise_if_no_controller_running=False)
    return int(client.http_config.port) if client is not None else asked


def wait_until_answering(address: str, gone: Callable[[], str | None]) -> None:
    """Wait until the API answers.

    Args:
        address: where.
        gone: the reason once the head is lost; None while it lives.

    Raises:
        ClusterError: it does not answer in time, or the head is lost.
    """
    until = time.monotonic() + READY_S
    while not answers(address):
        reason = gone()
        if reason:
            raise ClusterError(reason)
        if time.monotonic() > until:
            raise ClusterError(f"The API at {address} does not answer after {READY_S:.0f} s.")
        time.sleep(0.05)


def undeploy(home: Home, *, shut_serve: bool) -> None:
    """Take API, controller, workers and leases off an attached cluster; what is gone already is harmless.

    Args:
        home: whose platform it is; another's is left alone.
        shut_serve: True when Serve was started by us and is to be ended too.

    Raises:
        ClusterError: Ray does not answer.
    """
    from rlark.cluster.on_ray import leases, remains

    there = owner()
    if there not in (None, str(home.root)):
        return
    try:
        if serve_runs():  # also without a controller: an API that nobody answers behind is no use to anybody
            serve.delete(APP)
            if shut_serve and not serve.status().applications:
                serve.shutdown()
    except (RayError, RayServeException) as error:
        raise ClusterError(f"The API could not be taken off Ray Serve: {error}") from error
    if there is not None:
        ray.kill(ray.get_actor(NAME, namespace=NAMESPACE), no_restart=True)
    process.end(remains.processes_under(home.jobs), LEFT_GRACE_S)  # before others get the capacity they use
    for group in list(leases.groups()):
        leases.remove(group.name)


def serve_runs() -> bool:
    """Whether the cluster has a Serve before we touch it."""
    try:
        ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
    except ValueError:
        return False
    return True
