"""Ray's Jobs API by its REST routes: light, always with a timeout, never through a proxy.

What is sent there (entrypoint, runtime environment, metadata) is shown in clear to everybody who
has Ray's token, so nothing of it is secret.
"""

from __future__ import annotations

import json
import re
import signal
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlark.errors import ClusterError

TIMEOUT_S = 10.0
LAST_LINES = 3
LONGEST_LINE = 200
_QUOTE = re.compile(r",? last available logs\b.*", re.DOTALL)
_RAYS_OWN = re.compile(r"job_manager\.py:\d+ -- |^Running entrypoint for job ")
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True)
class RayJob:
    """What Ray says of a Job.

    Attributes:
        status: PENDING, RUNNING, SUCCEEDED, FAILED or STOPPED; empty when Ray does not know it.
        message: Ray's words.
        exit_code: of its driver, negative for a signal; None while Ray does not know it.
    """

    status: str
    message: str = ""
    exit_code: int | None = None

    @property
    def ended(self) -> bool:
        """True when its driver is certainly gone."""
        return self.status in _ENDED or not self.status

    @property
    def end(self) -> str:
        """How its driver ended, for people: `was killed by SIGKILL`."""
        if self.exit_code is None:
            return "has ended"
        if self.exit_code >= 0:
            return f"ended with exit code {self.exit_code}"
        try:
            name = signal.Signals(-self.exit_code).name
        except ValueError:
            name = f"signal {-self.exit_code}"
        advice = ": if nobody did that, memory may have run out (dmesg tells)" if name == "SIGKILL" else ""
        return f"was killed by {name}{advice}"


class JobsApi:
    """The Jobs of one Ray cluster."""

    def __init__(self, dashboard: str, token_path: str) -> None:
        """Take the dashboard's address and the file with Ray's token (empty for none)."""
        self._dashboard = dashboard.rstrip("/")
        self._token_path = token_path
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def submit(
        self, submission_id: str, entrypoint: str, *, node_id: str, env: Mapping[str, str], metadata: Mapping[str, str]
    ) -> None:
        """Submit a Job; one that is there already under that id stays as it is.

        Args:
            submission_id: its name, chosen by us.
            entrypoint: a shell command.
            node_id: Ray's id of the node it must run on; empty for the head.
            env: variables of its supervisor and driver, shown in clear.
            metadata: shown in the dashboard, in clear.

        Raises:
            ClusterError: the API does not answer, or refuses.
        """
        body: dict[str, object] = {
            "submission_id": submission_id,
            "entrypoint": entrypoint,
            "metadata": dict(metadata),
        }
        if env:
            body["runtime_env"] = {"env_vars": dict(env)}
        if node_id:
            body["entrypoint_label_selector"] = {"ray.io/node-id": node_id}
        status, answer = self._call("POST", "/api/jobs/", body)
        if status >= 400 and not self.status(submission_id).status:
            raise ClusterError(f"Ray refused the Job {submission_id}: {_last_line(answer)}")

    def status(self, submission_id: str) -> RayJob:
        """What Ray knows of a Job.

        Raises:
            ClusterError: the API does not answer.
        """
        status, answer = self._call("GET", f"/api/jobs/{submission_id}")
        if status == 404:
            return RayJob("", "this Ray head does not know it: it was started after the Job")
        if status >= 400:
            raise ClusterError(f"Ray's Jobs API does not answer: {status} {_last_line(answer)}")
        found: dict[str, Any] = json.loads(answer)
        code = found.get("driver_exit_code")
        return RayJob(str(found.get("status") or ""), str(found.get("message") or ""), code)

    def stop(self, submission_id: str) -> None:
        """Send SIGTERM to a Job's driver and all below it; an ended or unknown Job is harmless.

        Raises:
            ClusterError: the API does not answer.
        """
        status, answer = self._call("POST", f"/api/jobs/{submission_id}/stop")
        if status >= 400 and status != 404:
            raise ClusterError(f"Ray's Jobs API does not stop {submission_id}: {status} {_last_line(answer)}")

    def last_words(self, submission_id: str) -> list[str]:
        """The last lines of what a driver printed, cut to a readable length; none when none are to be had."""
        try:
            status, answer = self._call("GET", f"/api/jobs/{submission_id}/logs")
            lines = str(json.loads(answer).get("logs") or "").splitlines() if status < 400 else []
        except (ClusterError, ValueError, AttributeError):
            return []
        said = [line.strip()[:LONGEST_LINE] for line in lines if line.strip() and not _RAYS_OWN.search(line)]
        return said[-LAST_LINES:]

    def _call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> tuple[int, str]:
        headers = {"Content-Type": "application/json"}
        try:
            if self._token_path:
                headers["Authorization"] = f"Bearer {Path(self._token_path).read_text(encoding='utf-8').strip()}"
            data = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(self._dashboard + path, data=data, headers=headers, method=method)  # noqa: S310
            with self._opener.open(request, timeout=TIMEOUT_S) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")
        except OSError as error:
            raise ClusterError(
                f"Ray's Jobs API at {self._dashboard} does not answer: {error}.",
                hint="the head starts a dead dashboard again within seconds; if it stays away: rlark down, rlark up",
            ) from error


def brief(message: str) -> str:
    """Ray's reason in one line: without the log that it quotes, and of a traceback its last line."""
    lines = [line for line in _QUOTE.sub("", message).splitlines() if line.strip()]
    if not lines:
        return ""
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return line.strip()[:LONGEST_LINE]


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:500] if lines else "no reason given"
