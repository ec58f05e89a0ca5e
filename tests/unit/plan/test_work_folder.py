"""Relative paths in scripts: told where they must be there and cannot be, and nowhere else."""

from __future__ import annotations

import pytest

from rlark.plan.work_folder import WorkFolder


def first(*scripts: str) -> str | None:
    folder = WorkFolder()
    found = [folder.first_relative(script) for script in scripts]
    return found[-1].text if found[-1] else None


@pytest.mark.parametrize(
    ("script", "path"),
    [
        ("python train.py", "train.py"),
        ("bash -x run.sh", "run.sh"),
        ("bash examples/run.sh", "examples/run.sh"),
        ("./run.sh", "./run.sh"),
        ("bin/x", "bin/x"),
        ("../x.sh", "../x.sh"),
        ("python -m x --config configs/x.yaml", "configs/x.yaml"),
        ("python -m x --config=configs/x.yaml", "--config=configs/x.yaml"),
        ("python /opt/x.py data.train=data/x.parquet", "data.train=data/x.parquet"),
        ("source venv/bin/activate", "venv/bin/activate"),
        (". env.sh", "env.sh"),
        ("pip install -r requirements.txt", "requirements.txt"),
        ("cat < input.txt", "input.txt"),
        ("cd RLinf\npython x.py", "RLinf"),
        ("(cd /a && make)\npython t.py", "t.py"),
        ("if true; then\n  python train.py; fi", "train.py"),
        ("PYTHONPATH=src python train.py", "train.py"),
        ("set -e\npython \\\n  train.py", "train.py"),
        ("nohup python 'train.py' > log.txt &", "train.py"),
        ("torchrun --nproc_per_node 8 train.py", "train.py"),
        ("cat <<EOF\n./not-this.sh\nEOF\npython train.py", "train.py"),
        ("echo $(cd /x && pwd)\npython train.py", "train.py"),
        ("git clone https://example.com/a/b.git\nbash c/x.sh", "c/x.sh"),
    ],
)
def test_what_must_be_there_and_is_not(script, path):
    assert first(script) == path


@pytest.mark.parametrize(
    "script",
    [
        "python -m pkg.train",
        "python /a/train.py",
        "python $DIR/train.py",
        'python "${DIR}/train.py"',
        "python ~/x.py",
        "cd /x\npython train.py",
        "cd $X && python train.py",
        "cd && ./a",
        'cd "$(dirname "$0")" && ./x.sh',
        "echo see train.py",
        "printf 'a/b/c.py\\n'",
        "# python train.py",
        "python -c 'import x.py'",
        "python - <<EOF\n./x.py\nEOF",
        "cat <<-'E' > a.sh\n./foo\n\tE\nbash a.sh",
        "python -m x --model Qwen/Qwen2.5-VL-7B-Instruct",
        "python -m x --config-name maniskill.yaml",
        "python -m x --config-path examples/embodiment",
        "python -m x runner.logger.log_path=logs/a.txt --log-dir logs/b.txt -o out.json",
        "python -m x > log.txt 2>&1",
        "python -m x 2>&1 | tee log.txt\ncat log.txt",
        "curl -O https://example.com/z.sh && bash z.sh",
        "wget https://example.com/y.tar.gz && tar xf y.tar.gz && ./y/run.sh",
        "git clone https://example.com/RLinf.git && cd RLinf && python x.py",
        "git clone git@example.com:a/RLinf.git\npython RLinf/x.py",
        "git clone -b main --depth 1 https://example.com/a/b dir; bash dir/x.sh",
        "python -m venv .venv && source .venv/bin/activate",
        "mkdir -p out/a && cat out/a/x.txt",
        "cp /a/x.py train.py && python train.py",
        "cp -r /a/code . && python code/train.py",
        "sed -i s/a/b/c x.yaml",
        "docker run a/b/c:v1",
        "for f in a.py b.py; do echo $f; done",
        "export CONFIG=configs/x.yaml",
        "source activate env",
        "pip install torch==2.13.0 https://example.com/y.whl",
        "git checkout origin/main && date +%Y/%m/%d",
        "[ -f x.sh ] && [[ a == b/c.py ]]",
        'echo "it is not closed',
        "$(",
        "",
    ],
)
def test_what_only_looks_like_one(script):
    assert first(script) is None


def test_the_prepare_script_moves_and_makes_for_the_run():
    assert first("cd /opt/walk", "python train.py") is None
    assert first("git clone https://example.com/walk", "python walk/train.py") is None
    assert first("(cd /opt/walk)", "python train.py") == "train.py"


def test_where_it_stands():
    word = WorkFolder().first_relative("set -x\n\n  python  'train.py'")
    assert word is not None
    assert (word.line, word.column) == (3, 11)
