from hemostat.track import RunRecord
from hemostat.train.card import card
from hemostat.train.weights import Weights

HEADER = {
    "provenance": {"git": {"commit": "c" * 40, "dirty": True}},
    "hardware": {"num_ranks": 2, "name": "cpu"},
    "data": {"tier": "full", "digest": "ab" * 32, "num_samples": 1797},
    "recipe": [
        {"field": "lr", "before": 0.1, "value": 0.2, "why": "linear rule | k = 2", "source": "Goyal 2017"},
        {"field": "momentum", "value": 0.9, "why": "given by the task"},
        {"field": "ema", "value": None, "why": "not used"},
    ],
}
SUMMARY = {"monitor": "val_loss", "best": 0.25, "best_step": 80}
MANIFEST = {"kind": "archive", "task": "digits.py:Digits", "torch": "2.13.0"}


BEST = Weights({}, "best", 80)


def made(tmp_path, header=HEADER, weights=BEST, **manifest):
    record = RunRecord(tmp_path / "one", {"summary": SUMMARY if header else {}})
    record.header = header
    return record, lambda: card(record, weights, MANIFEST | manifest)


def test_it_says_where_the_model_comes_from(tmp_path):
    text = made(tmp_path)[1]()
    for part in (
        "# Digits, run one",
        "| weights | best weights of step 80 |",
        f"`{'c' * 40}`, with uncommitted changes",
        f"1797 samples, full fingerprint `{'ab' * 32}`",
        "| lr | 0.1 -> 0.2 | linear rule \\| k = 2 (Goyal 2017) |",
        "| momentum | 0.9 | given by the task |",
        "| ema | none | not used |",
        "| val_loss | 0.25 | | best during training, chosen by it |",
    ):
        assert part in text


def test_figures_come_with_their_errors_and_the_looks(tmp_path):
    record, text = made(tmp_path)
    for _ in range(2):
        figures = {
            "test_f": {"value": 0.9722, "standard_error": 0.0087},
            "test_g": {"value": "nan", "standard_error": None},
        }
        fields = {
            "split": "test",
            "checkpoint": "best",
            "step": 80,
            "num_samples": 360,
            "figures": figures,
        }
        record.add_evaluation(f"e{_}", fields)
    assert (
        "| test_f | 0.9722 | 0.0087 | best weights of step 80, 360 samples; test data looked at 2 times |"
        in text()
    )
    assert "| test_g | nan | not known |" in text()


def test_figures_of_other_weights_are_not_shown(tmp_path):
    record, _ = made(tmp_path)
    for number, step in enumerate((80, 100)):
        figures = {"val_f": {"value": step / 1000, "standard_error": None}}
        fields = {
            "split": "val",
            "checkpoint": f"step-{step}",
            "step": step,
            "num_samples": 9,
            "figures": figures,
        }
        record.add_evaluation(f"e{number}", fields)
    best, last = (
        made(tmp_path, weights=Weights({}, name, step))[1]() for name, step in (("best", 80), ("last", 100))
    )
    assert "| val_loss | 0.25 |" in best and "| val_f | 0.08 | not known | weights of step 80" in best
    assert "val_loss" not in last and "| val_f | 0.1 |" in last and "0.08" not in last
    other = made(tmp_path, weights=Weights({}, "step-60", 60))[1]()
    assert "These weights were not judged; `hemostat evaluate one --checkpoint step-60` does it." in other


def test_how_to_load_depends_on_the_kind(tmp_path):
    assert "so the training code is not needed" in made(tmp_path)[1]()
    assert (
        "transformers.GPT2LMHeadModel"
        in made(tmp_path, kind="huggingface", **{"class": "GPT2LMHeadModel"})[1]()
    )
    text = made(tmp_path, kind="task", why="it branches.")[1]()
    assert 'task="path/to/digits.py:Digits"' in text and "needed: it branches." in text


def test_a_run_that_says_little(tmp_path):
    text = made(tmp_path, header={})[1]()
    assert "not recorded" in text and "not judged" in text
