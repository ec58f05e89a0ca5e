from __future__ import annotations

from pathlib import Path

from rlark.folder import JobFolder
from rlark.plan.node import Device, HeadAddress, Lease
from rlark.plan.plan import Plan
from rlark.worker.environment import head_environment, redactor, run_environment

FOLDER = JobFolder(Path("/state/jobs/demo"))


def lease(**changes) -> Lease:
    return Lease(job="demo", attempt=3, key="k", node="box", **changes)


def test_the_run_has_the_platforms_variables():
    head = HeadAddress(address="10.0.0.1:6379", token_path="/state/ray-token")
    given = lease(devices=[Device(id="2"), Device(id="GPU-b")], head=head)
    env, overridden = run_environment(Plan(job="demo", node="box"), given, FOLDER, {"PATH": "/bin"})
    assert overridden == []
    assert env == {
        "PATH": "/bin",
        "PYTHONUNBUFFERED": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "RLARK_JOB": "demo",
        "RLARK_JOB_DIR": "/state/jobs/demo",
        "RLARK_ATTEMPT": "3",
        "RLARK_TENSORBOARD_DIR": "/state/jobs/demo/tensorboard",
        "RLARK_TOTAL_NODES": "1",
        "RLARK_TASK_ROLE": "worker",
        "RLINF_NODE_RANK": "0",
        "CUDA_VISIBLE_DEVICES": "2,GPU-b",
        "RAY_ADDRESS": "10.0.0.1:6379",
        "RLARK_RAY_PORT": "6379",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": "/state/ray-token",
    }


def test_without_gpus_none_is_visible_and_without_a_token_none_is_named():
    env, _ = run_environment(Plan(job="demo", node="box"), lease(head=HeadAddress(address="h:1")), FOLDER, {})
    assert env["CUDA_VISIBLE_DEVICES"] == ""
    assert not [name for name in env if name.startswith("RAY_AUTH")]


def test_only_what_is_allowed_comes_from_outside():
    outer = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "https_proxy": "http://p",
        "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}",
        "AWS_SECRET_ACCESS_KEY": "x",
        "RLARK_TOKEN": "x",
        "RAY_RAYLET_PID": "3",
    }
    env, _ = run_environment(Plan(job="demo", node="box"), lease(), FOLDER, outer)
    assert {name for name in outer if name in env} == {"PATH", "LC_ALL", "https_proxy", "RAY_JOB_CONFIG_JSON_ENV_VAR"}


def test_the_jobs_own_variables_win_over_the_hosts_and_lose_to_the_platforms():
    plan = Plan(
        job="demo",
        node="box",
        env={"PATH": "/mine", "RLARK_JOB": "other", "RLARK_ATTEMPT": "3", "PYTHONUNBUFFERED": "0"},
        tensorboard="/mnt/tb",
    )
    env, overridden = run_environment(plan, lease(), FOLDER, {"PATH": "/bin"})
    assert (env["PATH"], env["PYTHONUNBUFFERED"], env["RLARK_JOB"]) == ("/mine", "0", "demo")
    assert env["RLARK_TENSORBOARD_DIR"] == "/mnt/tb"
    assert overridden == ["RLARK_JOB"]


def test_what_its_name_calls_secret_is_masked_and_rays_token_too(tmp_path: Path):
    (tmp_path / "token").write_text("raytokenraytoken\n")
    head = HeadAddress(address="h:1", token_path=str(tmp_path / "token"))
    env = {"HF_TOKEN": "hf_abcdef", "DB_PASSWORD": "pa55word", "TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "qwerty"}
    mask = redactor(Plan(job="demo", node="box", env=env), lease(head=head))
    assert mask("hf_abcdef pa55word false qwerty raytokenraytoken") == "*** *** false qwerty ***"


def test_each_line_of_a_secret_of_several_lines_is_masked():
    mask = redactor(Plan(job="demo", node="box", env={"SSH_PRIVATE_KEY": "-----BEGIN-----\nMIIabcdefgh\nab"}), lease())
    assert mask("x MIIabcdefgh ab") == "x *** ab"


def test_a_token_that_cannot_be_read_is_no_reason_to_fail(capsys):
    redactor(Plan(job="demo", node="box"), lease(head=HeadAddress(address="h:1", token_path="/nowhere/token")))
    assert "Ray's token is not readable" in capsys.readouterr().err


def test_under_a_head_of_its_own_the_platforms_ray_job_is_left_out_and_the_head_gets_what_is_leased():
    outer = {"PATH": "/bin", "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}
    head = HeadAddress(address="127.0.0.1:12000", token_path="/t")
    plan = Plan(job="demo", node="box", head="job")
    env, _ = run_environment(plan, lease(head=head, devices=[Device(id="GPU-b")]), FOLDER, outer)
    assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in env
    assert head_environment(env) == {
        "RLINF_NODE_RANK": "0",
        "CUDA_VISIBLE_DEVICES": "GPU-b",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "RAY_ADDRESS": "127.0.0.1:12000",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": "/t",
    }
