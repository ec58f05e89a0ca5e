"""No secret that stands in a Job is ever shown, whatever else is wrong with the Job and wherever one looks."""

from __future__ import annotations

import json

import pytest

from rlark.control.submission import accept
from rlark.errors import RlarkError

JOB = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: demo
  labels: {team: TEAM}
spec:
  tasks:
    - name: worker
      head: true
      nodeSelector: {kubernetes.io/hostname: box}
      ray:
        env: [{name: A, value: "VALUE"}]
        config:
          inline:
            cluster: {num_nodes: 1, component_placement: {actor: 0}}
            note: NOTE
      runScript: |
        cd /opt/walk
        SCRIPT
"""
SECRETS = {
    "RL351": [
        "hf_abcdefghijklmnopqrstuvwxyz012345",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "glpat-abcdefghij0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdefghijkl",
        "sk_live_abcdefghijklmnop01234567",
        "sk-proj-abcdefghijklmnop1234",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1rwW1gFWFOEjXk",
    ],
    "RL352": ["https://me:hunter22secret@example.com/x.git"],
}
KINDS = [(code, secret) for code, secrets in SECRETS.items() for secret in secrets]
KEY = [
    "-----BEGIN RSA PRIVATE KEY-----",
    "MIIEowIBAAKCAQEA04up8hoqzS1",
    "AbCdEf0123456789xyz",
    "-----END RSA PRIVATE KEY-----",
]


def core(secret: str) -> str:
    return secret.partition("me:")[2].partition("@")[0] or secret


def everything(preview) -> str:
    """All that anybody is shown of a preview."""
    texts = [str(finding) for finding in preview.findings] + [repr(finding) for finding in preview.findings]
    try:
        accept(preview)
        raise AssertionError("a Job with a secret was accepted")
    except RlarkError as error:
        texts += [str(error), repr(error), str(error.hint), json.dumps([f.to_json() for f in error.findings])]
    return "\n".join([*texts, json.dumps(preview.to_json()), preview.yaml, preview.name])


def assert_unseen(preview, code: str, secret: str) -> None:
    assert code in {finding.code for finding in preview.findings}
    assert preview.exit_code == 3
    assert (preview.yaml, preview.digest, preview.job, preview.plan) == ("", "", None, None)
    assert (preview.to_json()["yaml"], preview.to_json()["digest"]) == (None, None)
    seen = everything(preview)
    for start in range(len(secret) - 7):
        assert secret[start : start + 8] not in seen


@pytest.mark.parametrize("place", ["TEAM", "VALUE", "NOTE", "SCRIPT"])
@pytest.mark.parametrize(("code", "secret"), KINDS)
def test_a_secret_is_told_and_not_shown(check, place, code, secret):
    assert_unseen(check(JOB.replace(place, secret)), code, core(secret))


WRONG = {
    "a key that nobody knows": ("runScript", "runScrpt"),
    "a number": ("num_nodes: 1", "num_nodes: SECRET"),
    "a placement": ("{actor: 0}", "{actor: SECRET}"),
    "a kind": ("kind: Job", "kind: SECRET"),
    "a list": ("labels: {team: TEAM}", "labels: [SECRET]"),
    "a name": ("name: demo", "name: SECRET"),
    "a resource": ("ray:\n", "ray:\n        resources: {gpu: SECRET}\n"),
    "a duration": ("spec:\n", "spec:\n  activeDeadline: SECRET\n"),
    "an image": ("ray:\n", "ray:\n        image: SECRET\n"),
    "a mount": ("ray:\n", "ray:\n        mounts: [{hostPath: SECRET, mountPath: SECRET}]\n"),
    "a variable": ("{name: A,", "{name: SECRET,"),
    "a task": ("- name: worker", "- name: SECRET"),
    "a pattern": ("      ray:\n", "      expect: {firstSignal: {pattern: 'SECRET('}}\n      ray:\n"),
    "an override": ("          inline:", "          overrides: [SECRET, 'a=[SECRET']\n          inline:"),
    "an unknown key": ("spec:\n", "spec:\n  SECRET: 1\n"),
    "a broken file": ("kind: Job", "kind: [SECRET"),
    "a word": (JOB, "SECRET"),
    "a selector": ("hostname: box", "hostname: SECRET"),
    "a script that bash cannot read": ("SCRIPT", "if SECRET; )SECRET fi"),
    "a comment": ("kind: Job", "kind: Job  \n# SECRET"),
    "an output": ("      ray:\n", "      expect: {outputs: [{path: ../SECRET}]}\n      ray:\n"),
    "a domain": ("spec:\n", "spec:\n  domain: SECRET\n"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_else_is_wrong_does_not_show_it(check, wrong):
    secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    old, new = WRONG[wrong]
    assert old in JOB
    text = JOB.replace(old, new).replace("SECRET", secret).replace("VALUE", secret)
    assert_unseen(check(text), "RL351", secret)


def test_a_private_key_in_a_value_and_in_a_script(check):
    in_script = "echo '" + "\n        ".join(KEY) + "'"
    for text in (JOB.replace("VALUE", "\\n".join(KEY)), JOB.replace("SCRIPT", in_script)):
        preview = check(text)
        for line in KEY[1:-1]:
            assert_unseen(preview, "RL350", line)


def test_a_variable_that_looks_like_a_secret(check):
    assert_unseen(
        check(JOB.replace("VALUE", "q7Zp2LxW9vRk4TnB8cYd3MfH6gJs1QaE")), "RL353", "q7Zp2LxW9vRk4TnB8cYd3MfH6gJs1QaE"
    )


@pytest.mark.parametrize(
    "value", ["$TOKEN", "${HF_TOKEN}", "***", "<your token>", "", "6a0fa3a267f216d934f820781ef62765fb41d6d5"]
)
def test_references_and_hashes_are_no_secrets(check, value):
    preview = check(
        JOB.replace("name: A", "name: HF_TOKEN" if len(value) < 20 else "name: COMMIT").replace("VALUE", value)
    )
    assert [finding for finding in preview.findings if finding.code.startswith("RL35")] == []
    assert preview.yaml


def test_the_public_ssh_key_is_none(check):
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJ1dCBub3QgYSByZWFsIGtleSwganVzdCAzMiBi me@box"
    assert [f.code for f in check(JOB.replace("spec:\n", f"spec:\n  sshPublicKey: {key}\n")).findings] == ["RL255"]
