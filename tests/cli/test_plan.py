"""`hemostat plan` as a user types it: from a task, a config.json or three numbers."""

from __future__ import annotations

import json
import re

import pytest

from hemostat.cli.main import run as command

NUMBERS = ["--params", "320M", "--layers", "24", "--hidden", "1024", "--cluster", "8xA100-40GB"]
LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
TASK = """
import torch, hemostat
from torch.utils.data import TensorDataset

class Words(hemostat.Task):
    optimizer: str = "adamw"
    lr: float = 0.001
    tuned_batch: int = 16
    epochs: float = 2
    width: int = 64
    looks: bool = False
    def model(self):
        return torch.nn.Sequential(
            torch.nn.Embedding(100, self.width), torch.nn.Linear(self.width, self.width), Looks(self.looks),
            torch.nn.Linear(self.width, 100))
    def train_data(self):
        return TensorDataset(torch.zeros(64, 8, dtype=torch.long), torch.zeros(64, 8, dtype=torch.long))
    def loss(self, output, target):
        flat = output.flatten(0, 1), target.flatten()
        return torch.nn.functional.cross_entropy(*flat, reduction="sum"), target.numel()

class Looks(torch.nn.Module):
    def __init__(self, looks):
        super().__init__()
        self.looks = looks
    def forward(self, x):
        return x * 2 if self.looks and x.sum().item() > 0 else x
"""


def said(capsys, *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    status = command(["plan", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_three_numbers_in_at_most_12_lines(capsys):
    status, out, _ = said(capsys, *NUMBERS, "--tokens", "6.4B", "--global-batch", "1Mtok")
    assert status == 0 and len(out.splitlines()) <= 12
    assert out.startswith("plan     decoder, 320M parameters, 1,024 tokens a sample; 8xA100-40GB")
    assert re.search(r"^best +dp=8 .* GiB .*\$", out, re.MULTILINE) and "p4d.24xlarge" in out


def test_a_layout_that_does_not_fit_gets_its_cheapest_change(capsys):
    words = [
        "--tokens",
        "6.4B",
        "--global-batch",
        "1024",
        "--layout",
        "dp=8",
        "--set",
        "plan.micro_batch=128",
    ]
    status, out, _ = said(capsys, *NUMBERS, *words)
    assert status == 0
    assert "wanted   dp=8 at micro-batch 128 does not fit" in out
    assert re.search(r"^change +micro_batch=16, accumulation=8: .* slower, \$", out, re.MULTILINE)


def test_a_config_json(capsys, tmp_path):
    (tmp_path / "llama.json").write_text(json.dumps(LLAMA))
    words = [str(tmp_path / "llama.json"), "--cluster", "64xH100-80GB", "--tokens", "1T"]
    status, out, _ = said(capsys, *words, "--global-batch", "4Mtok", "--why")
    assert (
        status == 0
        and "8.03B parameters" in out
        and "allocated" in out
        and "layouts and micro-batches" in out
    )
    found = json.loads(said(capsys, *words, "--json")[1])
    assert found["goal"]["num_tokens"] == 1e12 and found["found"]["choices"][0]["layout"]["fsdp"] >= 1


def test_a_task_is_traced_and_gets_its_recipe_and_its_command(here, capsys):
    status, out, _ = said(capsys, "line.py:Words", "--cluster", "2xA100-40GB", "--global-batch", "64")
    assert status == 0, out
    assert "plan     Sequential, 17.1k parameters" in out
    assert re.search(r"^recipe +lr \d\.\d+, warm-up \d+ steps.* at batch 64$", out, re.MULTILINE)
    run = re.search(
        r'^run +hemostat train line.py:Words --nproc 2 --layout "([^"]+)" --set .*', out, re.MULTILINE
    )
    assert run is not None and "dp=2" in run[1]


def test_a_model_that_looks_at_values_is_named_with_its_line(here, capsys):
    status, _, err = said(capsys, "line.py:Words", "--cluster", "2xA100-40GB", "--set", "looks=true")
    assert status == 2 and "line.py:" in err and err.count("\n") == 1


def test_what_fits(capsys):
    _, out, _ = said(capsys, *NUMBERS, "--fit")
    assert len(re.findall(r"^fits ", out, re.MULTILINE)) == 3 and "$1,000" in out


def test_the_page_for_the_money(capsys):
    status, out, _ = said(capsys, *NUMBERS, "--ask", "--tokens", "100B")
    assert status == 0 and out.startswith("# Request for $") and "| reserve |" in out
    rows = [
        float(row.split("|")[2])
        for row in out.splitlines()
        if re.match(r"\| (pilot|search|final|reserve)", row)
    ]
    total = next(float(row.split("|")[2]) for row in out.splitlines() if row.startswith("| sum"))
    assert total == pytest.approx(sum(rows), abs=0.02)
    assert said(capsys, *NUMBERS, "--ask")[0] == 2  # no length


def test_plain_words(capsys):
    _, out, _ = said(capsys, *NUMBERS, "--explain")
    for start in ("What a device holds.", "Why memory does not fall", "When tensor parallelism hurts."):
        assert start in out


def test_configs_of_other_launchers(capsys, tmp_path):
    status, _, _ = said(capsys, *NUMBERS, "--output", str(tmp_path / "out"))
    assert status == 0
    deepspeed = json.loads((tmp_path / "out" / "deepspeed.json").read_text())
    assert deepspeed["train_batch_size"] == 1024
    assert "num_processes: 8" in (tmp_path / "out" / "accelerate.yaml").read_text()
    assert "--nproc-per-node=8" in (tmp_path / "out" / "torchrun.sh").read_text()


def test_a_picture(capsys, tmp_path):
    pytest.importorskip("matplotlib")
    assert said(capsys, *NUMBERS, "--plot", str(tmp_path / "plan.png"))[0] == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([], "cluster='': is missing"),
        (["--cluster", "8xA100-40GB"], "model='': is missing"),
        (["gone.json", "--cluster", "8xA100-40GB"], "cannot be read"),
        (["a.py:B", *NUMBERS], "has its own sizes"),
        (["a.py:B", "c.py:D", "--cluster", "8xA100-40GB"], "was named already"),
        ([*NUMBERS, "--fti"], "--fit"),
        ([*NUMBERS[:-1], "8xA100-41GB"], "A100-40GB"),
        ([*NUMBERS, "--tokens", "many"], "tokens='many'"),
        ([*NUMBERS, "--tokens", "1T", "--max-usd", "10"], "nothing fits it"),
        (
            ["--params", "1M", "--layers", "24", "--hidden", "1024", "--cluster", "8xA100-40GB"],
            "is less than",
        ),
        (["--params", "1M", "--layers", "-2", "--hidden", "64", "--cluster", "8xA100-40GB"], "layers='-2'"),
        ([*NUMBERS, "--layout", "dp=16"], "and there are 8"),
        ([*NUMBERS, "--set", "plan.precison=bf16"], "precison"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(capsys, words, fault):
    status, out, err = said(capsys, *words)
    assert (status, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert fault in err


def test_nothing_fits_is_a_finding(capsys):
    status, out, _ = said(capsys, "--layers", "96", "--hidden", "12288", "--cluster", "8xV100-16GB")
    assert status == 1 and "nothing fits: " in out
