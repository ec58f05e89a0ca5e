from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rlark.cluster.on_ray.jobs import JobsApi, brief
from rlark.errors import ClusterError


class Ray:
    """A Jobs API that answers what it is told to and remembers what it was asked."""

    def __init__(self):
        self.answers = {}
        self.asked = []


@pytest.fixture
def ray():
    fake = Ray()

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            fake.asked.append((self.command, self.path, self.headers.get("Authorization"), body))
            status, value = fake.answers.get((self.command, self.path), (404, "no such job"))
            text = value if isinstance(value, str) else json.dumps(value)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    fake.address = f"http://127.0.0.1:{server.server_port}"
    yield fake
    server.shutdown()
    server.server_close()


@pytest.fixture
def api(ray, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    return JobsApi(ray.address, str(tmp_path / "token"))


def submit(api, **changes):
    given = {"node_id": "", "env": {}, "metadata": {"a": "b"}} | changes
    api.submit("rlark-pong-1", "exec python", **given)


def test_a_submission_carries_only_what_may_be_seen(api, ray):
    ray.answers["POST", "/api/jobs/"] = (200, {})
    submit(api)
    [(_, _, authorization, body)] = ray.asked
    assert authorization == "Bearer secret"
    assert body == {"submission_id": "rlark-pong-1", "entrypoint": "exec python", "metadata": {"a": "b"}}


def test_a_node_and_variables_are_named_where_they_are_needed(api, ray):
    ray.answers["POST", "/api/jobs/"] = (200, {})
    submit(api, node_id="n1", env={"X": "1"})
    body = ray.asked[0][3]
    assert body["entrypoint_label_selector"] == {"ray.io/node-id": "n1"}
    assert body["runtime_env"] == {"env_vars": {"X": "1"}}


def test_a_job_that_is_there_already_stays_as_it_is(api, ray):
    ray.answers["POST", "/api/jobs/"] = (400, "already exists")
    ray.answers["GET", "/api/jobs/rlark-pong-1"] = (200, {"status": "RUNNING"})
    submit(api)
    assert [asked[0] for asked in ray.asked] == ["POST", "GET"]


def test_a_refusal_gives_rays_reason(api, ray):
    ray.answers["POST", "/api/jobs/"] = (500, "Traceback\nValueError: bad selector")
    with pytest.raises(ClusterError, match="ValueError: bad selector"):
        submit(api)


@pytest.mark.parametrize(
    ("status", "ended"),
    [("PENDING", False), ("RUNNING", False), ("SUCCEEDED", True), ("FAILED", True), ("STOPPED", True)],
)
def test_a_status_tells_whether_the_driver_is_gone(api, ray, status, ended):
    ray.answers["GET", "/api/jobs/x"] = (200, {"status": status, "message": "m"})
    job = api.status("x")
    assert (job.status, job.message, job.ended) == (status, "m", ended)


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (None, "has ended"),
        (0, "ended with exit code 0"),
        (44, "ended with exit code 44"),
        (-9, "was killed by SIGKILL: if nobody did that, memory may have run out (dmesg tells)"),
        (-11, "was killed by SIGSEGV"),
        (-99, "was killed by signal 99"),
    ],
)
def test_how_a_driver_ended_is_told_in_words(api, ray, code, end):
    ray.answers["GET", "/api/jobs/x"] = (200, {"status": "FAILED", "driver_exit_code": code})
    assert api.status("x").end == end


def test_an_unknown_job_is_gone_and_a_failing_api_says_nothing_of_it(api, ray):
    assert api.status("x").ended
    ray.answers["GET", "/api/jobs/x"] = (500, "boom")
    with pytest.raises(ClusterError, match="boom"):
        api.status("x")


def test_no_api_is_an_error_with_a_way_out(tmp_path):
    with pytest.raises(ClusterError, match="does not answer") as raised:
        JobsApi("http://127.0.0.1:9", "").status("x")
    assert "rlark down" in raised.value.hint


def test_stopping_a_job_that_is_gone_is_harmless(api, ray):
    api.stop("x")
    ray.answers["POST", "/api/jobs/x/stop"] = (500, "boom")
    with pytest.raises(ClusterError):
        api.stop("x")


def test_last_words_are_the_last_lines_and_never_an_error(api, ray):
    assert api.last_words("x") == []
    ray.answers["GET", "/api/jobs/x/logs"] = (200, {"logs": "\n".join(map(str, range(9)))})
    assert api.last_words("x") == ["6", "7", "8"]
    ray.answers["GET", "/api/jobs/x/logs"] = (200, {"logs": "y" * 9000})
    assert api.last_words("x") == ["y" * 200]
    own = (
        "2026-11-30 INFO job_manager.py:581 -- Runtime env is setting up.\nRunning entrypoint for job x: exec y\nmine\n"
    )
    ray.answers["GET", "/api/jobs/x/logs"] = (200, {"logs": own})
    assert api.last_words("x") == ["mine"]
    ray.answers["GET", "/api/jobs/x/logs"] = (200, "no json")
    assert api.last_words("x") == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "Job entrypoint command failed with exit code -9, last available logs (truncated to 20,000 chars):\na\nb",
            "Job entrypoint command failed with exit code -9",
        ),
        ("Job entrypoint command failed with exit code 1. No logs available.", None),
        ('Traceback (most recent call last):\n  File "x"\nOSError: no room\n', "OSError: no room"),
        ("x" * 9000, "x" * 200),
        ("\n", ""),
    ],
)
def test_rays_reason_is_one_line_without_the_log_it_quotes(message, reason):
    assert brief(message) == (message if reason is None else reason)
