"""Three nodes on one machine: a platform and two more raylets with folders, ports, labels and faked GPUs of their own.

Ray finds a raylet by the machine's address, and here three share one; so what is tested is that
everything goes by the node that the selector chose and by nothing else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from rlark.folder import read_json
from rlark.host import ports, process
from rlark.host.ray_start import HOOK, MODULE, short_temp_dir
from tests.integration.booting import boot, free_port, new_home, until

pytestmark = pytest.mark.integration
JOBS = "/api/v1/rlinf.io/v1alpha1/jobs"
NODES = "/api/v1/rlinf.io/v1alpha1/nodes"
FLAGS = (
    *("dashboard-agent-listen-port", "dashboard-agent-grpc-port", "runtime-env-agent-port"),
    *("metrics-export-port", "node-manager-port", "object-manager-port"),
)
WHERE = """
pid=$$
until grep -q raylet/raylet "/proc/$pid/cmdline"; do pid=$(ps -o ppid= -p "$pid" | tr -d ' '); done
echo "ran below $pid with $CUDA_VISIBLE_DEVICES"
"""
"""A run that tells below which raylet it runs, and which GPUs it sees."""


class Raylet:
    """A further node of a platform's cluster."""

    def __init__(self, home, state, name, gpus, **labels):
        self.name = name
        head = read_json(home.platform)["head"]
        taken = ports.free_ports(len(FLAGS) + 14)
        labels = {"rlark.io/node": name, **labels}
        self._process = subprocess.Popen(
            [
                *(sys.executable, *MODULE, "start", f"--address={head['address']}", "--disable-usage-stats"),
                *(f"--temp-dir={short_temp_dir(state / name)}", "--num-cpus=2", f"--num-gpus={gpus}"),
                *(f"--{flag}={port}" for flag, port in zip(FLAGS, taken, strict=False)),
                f"--worker-port-list={','.join(map(str, taken[len(FLAGS) :]))}",
                "--labels=" + ",".join(f"{key}={value}" for key, value in labels.items()),
                "--include-log-monitor=false",
            ],
            env={name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
            | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": head["tokenPath"], "RAY_START_HOOK": HOOK},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._mark = f"={short_temp_dir(state / name)}"

    def started(self):
        said, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, said
        return self

    @property
    def process(self):
        """The raylet itself; whatever runs on the node is below it. None once it is gone."""
        mine = (one for one in process.descendants(os.getpid()) if self._is_mine(process.command(one.pid)))
        return next(mine, None)

    def _is_mine(self, command):
        return "raylet/raylet" in command and self._mark in command

    def end(self):
        """End it and all that runs there, at once, as when a machine loses its power."""
        if self.process is not None:
            process.end_tree(self.process, 0)


@pytest.fixture(scope="module")
def three(state, closers):
    """A platform and two raylets: `left` (two GPUs, zone a) and `right` (four GPUs, zone b)."""
    home = new_home(state, "t")
    code, record, talk = boot("up", home, "--port", free_port(), "--num-cpus", 2, "--num-gpus", 0)
    assert code == 0, (record, talk)
    raylets = [
        Raylet(home, state, "left", 2, zone="a", team="nav"),
        Raylet(home, state, "right", 4, zone="b", team="nav"),
    ]

    def close():
        for one in raylets:
            one.end()
        boot("down", home, "--force")

    closers.append(close)
    for one in raylets:
        one.started()
    until(lambda: {"left", "right"} <= set(nodes(home)), 20, "the raylets are nodes")
    yield home, *raylets
    close()


def send(home, method, path, body=None):
    """Ask the platform; status and answer."""
    request = urllib.request.Request(
        f"{read_json(home.platform)['address']}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {home.token.read_text()}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def nodes(home):
    return {node["name"]: node for node in send(home, "GET", NODES)[1]["items"]}


def submitted(name, selector, script="sleep 300\n"):
    """A Job of two GPUs."""
    task = {
        "name": "worker",
        "head": True,
        "nodeSelector": selector,
        "ray": {"head": "platform", "resources": {"cpu": 0.5, "gpu": 2}},
        "runScript": script,
    }
    spec = {"tasks": [task], "terminationGrace": "1s"}
    return {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def submit(home, name, selector, script="sleep 300\n"):
    return send(home, "POST", JOBS, submitted(name, selector, script))


def status(home, name):
    return send(home, "GET", f"{JOBS}/{name}")[1]["status"]


def printed(home, name):
    """What a run says of itself, once it has ended."""
    until(lambda: status(home, name)["phase"] in ("Succeeded", "Failed"), 30, f"{name} ends")
    assert status(home, name)["phase"] == "Succeeded", status(home, name)
    log = (home.job(name).logs(1) / "stdout.log").read_text()
    return next(line.split("ran ")[1] for line in log.splitlines() if "ran below" in line)


def where(raylet, gpus):
    return f"below {raylet.process.pid} with {gpus}"


def codes(refused):
    code, problem = refused
    assert code == 422, problem
    return [finding["code"] for finding in problem["findings"]]


@pytest.fixture(scope="module")
def holder(three):
    """A Job that holds two of the four GPUs of `right` until its end."""
    home, *_ = three
    assert submit(home, "holder", {"zone": "b"})[0] == 201
    until(lambda: "Started" in {seen["type"] for seen in status(home, "holder")["conditions"]}, 30, "holder runs")
    return "holder"


def test_the_nodes_stand_apart_on_one_address(three):
    found = nodes(three[0])
    assert len(found) == 3
    assert [(name, found[name]["gpus"], found[name]["labels"]["zone"]) for name in ("left", "right")] == [
        ("left", 2, "a"),
        ("right", 4, "b"),
    ]
    assert {node["phase"] for node in found.values()} == {"Online"}


def test_a_job_runs_where_its_selector_says_with_the_gpus_of_that_node(three, holder):
    home, left, right = three
    assert submit(home, "second", {"zone": " x , b ", "team": "nav"}, WHERE)[0] == 201
    assert submit(home, "other", {"zone": "a"}, WHERE)[0] == 201
    assert printed(home, "second") == where(right, "2,3")
    assert printed(home, "other") == where(left, "0,1")
    assert [status(home, name)["node"] for name in ("second", "other")] == ["right", "left"]
    until(lambda: nodes(home)["left"]["used"]["gpus"] == 0, 20, "an ended Job has given back what it leased")
    until(lambda: nodes(home)["right"]["used"]["gpus"] == 2, 20, "and so has the other")
    assert [lease["job"] for lease in nodes(home)["right"]["leases"]] == [holder]


def test_two_nodes_are_too_many_and_a_cordoned_one_cannot_be_hit(three):
    home, left, _ = three
    assert codes(submit(home, "both", {"team": "nav"})) == ["RL202"]
    send(home, "PATCH", f"{NODES}/right", {"spec": {"unschedulable": True}})
    try:
        assert codes(submit(home, "none", {"zone": "b"})) == ["RL203"]
        assert submit(home, "only", {"team": "nav"}, WHERE)[0] == 201
        assert printed(home, "only") == where(left, "0,1")
    finally:
        send(home, "PATCH", f"{NODES}/right", {"spec": {"unschedulable": False}})


def test_a_label_that_was_set_is_hit(three):
    home, left, _ = three
    code, node = send(home, "PATCH", f"{NODES}/left", {"metadata": {"labels": {"place": "desk"}}})
    assert (code, node["labels"]["place"]) == (200, "desk")
    assert submit(home, "labelled", {"place": "desk"}, WHERE)[0] == 201
    assert printed(home, "labelled") == where(left, "0,1")


def test_a_node_that_goes_away_turns_offline_and_takes_its_job_along(three, holder):
    home, left, right = three
    right.end()
    until(lambda: status(home, holder)["phase"] == "Failed", 20, "the Job whose node went away ends")
    seen = status(home, holder)
    assert seen["reason"] == "NodeLost"
    assert "node right" in seen["message"]
    until(lambda: nodes(home)["right"]["phase"] == "Offline", 40, "Ray notices that the node is gone")
    assert codes(submit(home, "late", {"zone": "b"})) == ["RL203"]
    until(lambda: nodes(home)["right"]["leases"] == [], 20, "the lease is given back")
    assert submit(home, "still", {"zone": "a"}, WHERE)[0] == 201
    assert printed(home, "still") == where(left, "0,1")


def test_a_node_that_goes_away_while_a_job_starts_there_is_told_as_well(three):
    home, left, _ = three
    assert submit(home, "doomed", {"zone": "a"})[0] == 201
    until(lambda: status(home, "doomed")["phase"] == "Running", 20, "it was launched")
    left.end()
    until(lambda: status(home, "doomed")["phase"] == "Failed", 20, "it ends")
    assert status(home, "doomed")["reason"] == "NodeLost"
