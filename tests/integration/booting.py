"""`python -m rlark.boot` as the tests run it, and what they ask of a platform."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from rlark.folder import Home, read_json
from rlark.host import ports, process


def free_port():
    return ports.free_ports(1)[0]


def command(verb, home, *options):
    return [sys.executable, "-m", "rlark.boot", verb, "--home", str(home.root), *map(str, options)]


def boot(verb, home, *options, **env):
    """Run the command; its exit code, its JSON and its talk."""
    done = subprocess.run(
        command(verb, home, *options),
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ) | env,
    )
    return done.returncode, json.loads(done.stdout.strip().splitlines()[-1]), done.stderr


def get(home, path, timeout=2):
    """GET from the platform: status and body; status 0 without an answer."""
    request = urllib.request.Request(
        f"{read_json(home.platform)['address']}{path}", headers={"Authorization": f"Bearer {home.token.read_text()}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""
    except OSError:
        return 0, ""


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def supervisor_of(home):
    return process.ProcessId.from_json(read_json(home.platform)["supervisor"])


def everything(home):
    """Supervisor and all below it."""
    top = supervisor_of(home)
    return [top, *process.descendants(top.pid)]


def one(home, title):
    """The process of the platform whose command line holds a text."""
    found = [each for each in everything(home) if title in process.command(each.pid)]
    assert len(found) == 1, [process.describe(each) for each in found]
    return found[0]


def nothing_left(processes):
    return not [each for each in processes if process.alive(each)]


def new_home(state, name):
    home = Home(state / name)
    home.create()
    return home
