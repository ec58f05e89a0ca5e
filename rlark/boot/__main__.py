"""`python -m rlark.boot up --home DIR` and `python -m rlark.boot down --home DIR`.

Talk goes to stderr. The last line of stdout is one JSON object: what is running (`platform.json`),
or `{"code", "message", "hint", "exitCode"}` with that exit code.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence

from rlark.boot.options import Options, read_labels
from rlark.errors import RlarkError, UsageError
from rlark.folder import Home


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(f"rlark.boot: {message}")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m rlark.boot", description="Start and end the platform.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start a head and the API, or attach to an existing Ray cluster")
    up.add_argument("--home", help="the state directory")
    up.add_argument("--host", default="127.0.0.1", help="where the API listens")
    up.add_argument("--port", type=int, default=19091, help="the API's port")
    up.add_argument("--dashboard-port", type=int, default=0, help="the Ray dashboard's port; a free one by default")
    up.add_argument("--num-cpus", type=int, help="CPUs that Jobs may lease; counted by default")
    up.add_argument("--num-gpus", type=int, help="GPUs that Jobs may lease; more than there are fakes them")
    up.add_argument("--labels", default="", help="labels of this node: key=value,...")
    up.add_argument("--ray-address", default="", help="attach to the Ray cluster whose GCS answers at HOST:PORT")
    up.add_argument("--foreground", action="store_true", help="stay, and end the platform on Ctrl-C")
    down = verbs.add_parser("down", help="end what `up` started; Jobs first, with their grace")
    down.add_argument("--home", help="the state directory")
    down.add_argument("--force", action="store_true", help="do not wait for Jobs")
    return parser


def run(argv: Sequence[str]) -> dict[str, object]:
    """Do what the command line asks.

    Returns:
        What to print.

    Raises:
        RlarkError: what to print instead.
    """
    given = _parser().parse_args(argv)
    home = Home.find(given.home)
    if given.verb == "down":
        from rlark.boot.down import down

        return down(home, force=given.force)
    from rlark.boot.up import up

    options = Options(
        host=given.host,
        port=given.port,
        dashboard_port=given.dashboard_port,
        num_cpus=given.num_cpus,
        num_gpus=given.num_gpus,
        labels=read_labels(given.labels),
        ray_address=given.ray_address,
    )
    options.check()
    return up(home, options, stay=_print if given.foreground else None)


def _print(answer: Mapping[str, object]) -> None:
    sys.__stdout__.write(json.dumps(answer, ensure_ascii=False) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def main(argv: Sequence[str]) -> int:
    """Run and answer; the exit code."""
    with contextlib.redirect_stdout(sys.stderr):  # whatever Ray prints is talk
        try:
            answer = run(argv)
        except RlarkError as error:
            _print({"code": error.code, "message": error.message, "hint": error.hint, "exitCode": error.exit_code})
            return error.exit_code
        except KeyboardInterrupt:
            _print({"code": "internal", "message": "Interrupted.", "hint": None, "exitCode": 130})
            return 130
        except Exception as error:  # noqa: BLE001 - the caller reads one JSON line whatever happens
            import traceback

            traceback.print_exc()
            _print({"code": "internal", "message": f"{type(error).__name__}: {error}", "hint": None, "exitCode": 1})
            return 1
    if answer:
        _print(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
