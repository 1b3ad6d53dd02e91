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
    assert "its forward pass, in 2 (line.py:" in err and "loss" not in err and ".." not in err


def test_what_fits(capsys):
    _, out, _ = said(capsys, *NUMBERS, "--fit")
    assert len(re.findall(r"^fits ", out, re.MULTILINE)) == 3 and "$1,000" in out


def test_the_page_for_the_money(capsys):
    status, out, _ = said(capsys, *NUMBERS, "--ask", "--tokens", "100B")
    assert status == 0 and out.startswith("# Request for $") and "| reserve |" in out
    assert said(capsys, *NUMBERS, "--ask")[0] == 2  # no length


def test_what_fits_for_what_one_has(capsys):
    _, out, _ = said(capsys, *NUMBERS, "--fit", "--max-usd", "1.5k", "--max-days", "3")
    assert re.search(r"^\$1,500 +\d", out, re.MULTILINE) and re.search(r"^3 days +\d", out, re.MULTILINE)
    found = json.loads(said(capsys, *NUMBERS, "--fit", "--json")[1])
    assert [each["what"] for each in found["largest"]][-1] == "parameters"


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
        ([*NUMBERS, "--set", "plan=3"], "plan=3: is a section"),
        ([*NUMBERS, "--set", "nonsense=3"], "setting='nonsense'"),
        ([*NUMBERS, "--layout", "cp=8"], "Known: compile, dp, fsdp"),
        ([*NUMBERS, "--layout", "auto"], "Leave --layout out"),
        ([*NUMBERS, "--max-days", "nan"], "must be above 0"),
        ([*NUMBERS, "--max-days", "-1"], "must be above 0"),
        ([*NUMBERS, "--max-usd", "0"], "must be above 0"),
        ([*NUMBERS, "--tokens", "-5"], "0 or more"),
        ([*NUMBERS, "--global-batch", "1.5"], "no whole number"),
        ([*NUMBERS, "--set", "plan.usd_per_hour=-3"], "0 or more"),
        ([*NUMBERS, "--set", "plan.usd_per_hour=cheap"], "price='cheap'"),
        ([*NUMBERS, "--set", "plan.sample_tokens=abc"], "plan.sample_tokens='abc'"),
        ([*NUMBERS, "--plot", "."], "is a folder"),
        ([*NUMBERS, "--plot", "plan.jpg"], "is no PNG"),
        (["llama-70b", "--cluster", "8xA100-40GB"], "the path of a Hugging Face config.json"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(capsys, words, fault):
    status, out, err = said(capsys, *words)
    assert (status, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert fault in err


def test_nothing_fits_is_an_error_with_a_way_out(capsys):
    status, out, _ = said(capsys, "--layers", "96", "--hidden", "12288", "--cluster", "8xV100-16GB")
    assert status == 2 and "nothing fits: " in out and re.search("^way out +--cluster", out, re.MULTILINE)


def test_a_batch_of_fewer_samples_than_devices_is_the_reason_that_is_given(capsys):
    words = ["--params", "320M", "--cluster", "1024xH100-80GB", "--global-batch", "2"]
    status, out, _ = said(capsys, *words)
    assert status == 2 and "a batch of 2 samples cannot be shared out" in out and "--global-batch" in out


@pytest.mark.parametrize("pages", [["--fit", "--ask"], ["--explain", "--why"], ["--json", "--ask"]])
def test_one_page_at_a_time(capsys, pages):
    status, out, err = said(capsys, *NUMBERS, *pages)
    assert (status, out) == (2, "") and "one" in err and err.count("\n") == 1


def test_a_config_gets_a_recipe_from_what_works_on_one_device_and_a_command_on_each_machine(capsys, tmp_path):
    (tmp_path / "llama.json").write_text(json.dumps(LLAMA))
    words = [str(tmp_path / "llama.json"), "--cluster", "64xH100-80GB", "--global-batch", "4Mtok"]
    _, out, _ = said(capsys, *words)
    assert re.search("^recipe +add what works on one device", out, re.MULTILINE)
    run = re.search("^run +(torchrun .*)$", out, re.MULTILINE)[1]
    assert "--nnodes=8" in run and "--nproc-per-node=8" in run and "-m hemostat train task.py:Task" in run
    _, out, _ = said(capsys, *words, "--set", "lr=3e-4", "--set", "tuned_batch=64")
    assert re.search(r"^recipe +lr 0\.000\d+, warm-up \d+ steps at batch 488$", out, re.MULTILINE)


def test_settings_beside_the_section_count_for_a_config_too(capsys):
    status, out, _ = said(capsys, *NUMBERS, "--set", "global_batch=64", "--set", "optimizer=sgd")
    assert status == 0 and "batch 64 " in out


def test_a_price_as_the_note_writes_it(capsys):
    words = [*NUMBERS, "--tokens", "1B"]
    texts = [said(capsys, *words, "--set", f"plan.usd_per_hour={each}")[1] for each in ("$30/h", "30")]
    assert texts[0] == texts[1] and "$30.00 an hour" in texts[0]


def test_configs_say_what_they_hold(capsys, tmp_path):
    _, _, err = said(capsys, *NUMBERS, "--output", str(tmp_path / "out"))
    assert err.count("wrote ") == 3 and "torchrun.sh: dp=8" in err


def test_a_task_in_torchrun_is_run_by_hemostat(here, capsys):
    said(capsys, "line.py:Words", "--cluster", "2xA100-40GB", "--global-batch", "64", "--output", "out")
    assert "-m hemostat train line.py:Words --layout" in (here / "out" / "torchrun.sh").read_text()
