"""What counts as a secret, and what only looks like one."""

from __future__ import annotations

import base64
import random as numbers
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlark.spec.detector import PASSWORD, PRIVATE_KEY, RANDOM, TOKEN, assigned, hits, random

HEX = "0123456789abcdef0123456789abcdef01234567"
AWS = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVPmB92K27uhbUJU1p1rwW1gFWFOEjXk"


@pytest.mark.parametrize(
    ("line", "code", "value"),
    [
        ("-----BEGIN OPENSSH PRIVATE KEY-----", PRIVATE_KEY, "-----BEGIN OPENSSH PRIVATE KEY-----"),
        ("-----BEGIN ENCRYPTED PRIVATE KEY-----", PRIVATE_KEY, "-----BEGIN ENCRYPTED PRIVATE KEY-----"),
        (f"export AWS_SECRET_ACCESS_KEY={AWS}", TOKEN, AWS),
        (f"aws configure set aws_secret_access_key {AWS}", TOKEN, AWS),
        ("AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", TOKEN, "AKIAIOSFODNN7EXAMPLE"),
        ("export MINIO_SECRET_KEY=minioadmin", TOKEN, "minioadmin"),
        ("ossutil config -i LTAI4FoyABCDEFGHIJKL1234", TOKEN, "LTAI4FoyABCDEFGHIJKL1234"),
        ("AccountKey=" + "a" * 86 + "==", TOKEN, "AccountKey=" + "a" * 86 + "=="),
        ("hf login --token hf_abcdefghijklmnopqrstuvwxyz012345", TOKEN, "hf_abcdefghijklmnopqrstuvwxyz012345"),
        (f"wandb login {HEX}", TOKEN, HEX),
        (f"export WANDB_API_KEY={HEX}", TOKEN, HEX),
        (f"python -m x +wandb.api_key={HEX}", TOKEN, HEX),
        ("OPENAI_API_KEY=sk-proj-abcdefghijklmnop1234", TOKEN, "sk-proj-abcdefghijklmnop1234"),
        ("x: ghp_abcdefghijklmnopqrstuvwxyz0123456789", TOKEN, "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnop", TOKEN, "github_pat_11ABCDEFG0abcdefghijkl_mnop"),
        ("glpat-abcdefghij0123456789", TOKEN, "glpat-abcdefghij0123456789"),
        ("xoxb-123456789012-abcdefghijkl", TOKEN, "xoxb-123456789012-abcdefghijkl"),
        ("sk_live_abcdefghijklmnop01234567", TOKEN, "sk_live_abcdefghijklmnop01234567"),
        (JWT, TOKEN, JWT),
        ("client_secret: 'x8f9a7b6c5d4'", TOKEN, "x8f9a7b6c5d4"),
        ('curl -H "Authorization: Bearer abcdef123456" x', TOKEN, "abcdef123456"),
        ("git clone https://me:hunter22@example.com/x", PASSWORD, "hunter22"),
        ("mysql --password=hunter2", PASSWORD, "hunter2"),
        ("mysql --password hunter2", PASSWORD, "hunter2"),
        ('{"password": "hunter2"}', PASSWORD, "hunter2"),
        ("PGPASSWORD=hunter2 psql", PASSWORD, "hunter2"),
        ("export DB_PASS=hunter2", PASSWORD, "hunter2"),
        ("sshpass -p hunter2 ssh box", PASSWORD, "hunter2"),
        ("curl -u me:hunter2 https://x", PASSWORD, "hunter2"),
    ],
)
def test_a_secret_in_a_line(line, code, value):
    (hit,) = hits(line)
    assert (hit.code, hit.value) == (code, value)
    assert line[hit.column - 1 :].startswith(value)
    assert value not in hit.kind


@pytest.mark.parametrize(
    "line",
    [
        "export HF_TOKEN=$TOKEN",
        'export HF_TOKEN="${HF_TOKEN}"',
        "export HF_TOKEN=$(cat /run/secrets/hf)",
        "export HF_TOKEN=`cat ~/.hf`",
        "export WANDB_API_KEY=<your token>",
        "export WANDB_API_KEY=***",
        "export WANDB_API_KEY=",
        "export WANDB_API_KEY=your_api_key_here",
        "OPENAI_API_KEY=EMPTY python -m x --api-key EMPTY",
        "git checkout 6a0fa3a267f216d934f820781ef62765fb41d6d5",
        "docker pull x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "export RUN_ID=550e8400-e29b-41d4-a716-446655440000",
        'x --max_tokens 4096 --eos_token "<|im_end|>" tokenizer=Qwen/Qwen2.5-VL-7B-Instruct',
        'token = os.environ["HF_TOKEN"]',
        "password = getpass.getpass()",
        "login(token=hf_token, password=args.password)",
        "cd $PWD; OLDPWD=/tmp PWD=/workspace/here",
        "key: token",
        "secretName: huggingface",
        'echo "Enter password: "',
        "sort -k2 --key=2,2; for key in a b; do echo $key; done",
        "pass_rate=0.93 bypass=true num_pass=4",
        "git clone git@example.com:org/repo; curl https://example.com:8080/a@b",
        'curl -u "$USER:$PASS" -H "Authorization: Bearer $TOKEN" https://x',
        "postgres://user:${PASS}@host/db redis://:$PASS@host",
        "TOKENIZERS_PARALLELISM=false tokens_per_second=12345678",
        "SSH_KEY=/home/me/.ssh/id_ed25519 GPG_KEY_ID=ABCD1234EF",
        "experiment_name=task-sk-abcdefghijk1234567890123",
        "base64 -d <<< aGVsbG8gd29ybGQ=",
        "",
    ],
)
def test_what_only_stands_for_a_secret(line):
    assert hits(line) == []


def test_several_in_a_line_and_a_very_long_line():
    line = f"PASSWORD=hunter2 HF_TOKEN=hf_{'a1' * 15}"
    assert [hit.code for hit in hits(line)] == [PASSWORD, TOKEN]
    assert [hit.column for hit in hits("x" * 9000 + " " + line)] == [9011, 9028]


@pytest.mark.parametrize("line", ["password=" * 100_000, "PASSWORD=hunter2 " * 50_000, "password=$x " * 50_000])
def test_a_line_of_nothing_else_is_read_quickly(line):
    start = time.process_time()
    assert len(hits(line)) <= 100
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("HF_TOKEN", "anything-at-all", TOKEN),
        ("secretAccessKey", "abcd1234efgh", TOKEN),
        ("password", "correct horse", PASSWORD),
        ("password", "abc", None),
        ("eos_token", "abcd1234efgh", None),
        ("token", "worker", None),
        ("NAME", "abcd1234efgh", None),
    ],
)
def test_a_value_by_its_name(name, value, code):
    hit = assigned(name, value)
    assert (hit.code if hit else None) == code


def test_values_without_order():
    source = numbers.Random(7)
    tokens = [base64.b64encode(source.randbytes(30)).decode() for _ in range(50)]
    found = [random(token) for token in tokens]
    assert sum(hit is not None and hit.code == RANDOM for hit in found) >= 45
    assert random(f"id={source.randbytes(24).hex()}") is not None


@pytest.mark.parametrize(
    "value",
    [
        "RLinf-Pi05-LIBERO-Spatial-RL-20250923",
        "6a0fa3a267f216d934f820781ef62765fb41d6d5",
        "sha256:" + "0123456789abcdef" * 4,
        "550e8400-e29b-41d4-a716-446655440000",
        "/opt/venv/lib/python3.11/site-packages:/opt/q7Zp2LxW9vRk4TnB8cYd",
        "https://example.com/q7Zp2LxW9vRk4TnB8cYd3MfH6gJs1QaE",
        "expandable_segments:True,max_split_size_mb:128",
        "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",
        "ResNet50ImageNetV2FineTune2023Checkpoint",
        "ubuntu22.04-cuda12.4.1-cudnn-devel-py311",
        "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=",
        "short1A",
    ],
)
def test_values_that_have_an_order_or_a_known_form(value):
    assert random(value) is None


@given(st.text(max_size=200))
def test_any_line_is_read(line):
    for hit in hits(line):
        assert hit.value
        assert hit.column >= 1
