from hemostat.train import progress as module
from hemostat.train.progress import Progress
from hemostat.train.update import Step

STEP = Step(number=5, samples=500, loss=1.25, lr=0.001, grad_norm=1.0, applied=True)


def test_plain_lines_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)
    progress = Progress(1000, usd_per_hour=3600.0, visible=True)
    progress.best = "best val_loss 1.2000"
    progress.update(STEP)
    said = capsys.readouterr().err
    for part in (
        " 50%",
        "step 5",
        "loss 1.2500",
        "lr 0.001",
        "samples/s",
        "left",
        "$",
        "best val_loss 1.2000",
    ):
        assert part in said
    assert "\x1b" not in said


def test_the_speed_of_a_resumed_run_is_that_of_this_attempt(capsys, monkeypatch):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)
    clock = iter([0.0, 10.0])
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(clock))
    Progress(1000, None, visible=True, start_samples=400).update(STEP)
    assert "10 samples/s  50.0 s left" in capsys.readouterr().err


def test_lines_are_rare(capsys):
    progress = Progress(1000, None, visible=True)
    for _ in range(100):
        progress.update(STEP)
    assert capsys.readouterr().err == ""


def test_other_ranks_are_silent(capsys, monkeypatch):
    monkeypatch.setattr(module, "LINE_EVERY_S", 0.0)
    progress = Progress(1000, None, visible=False)
    progress.update(STEP)
    progress.say("hello")
    progress.close()
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(module.sys.stderr, "isatty", lambda: True, raising=False)
    progress = Progress(1000, None, visible=True)
    progress.update(STEP)
    progress.say("evaluated")
    progress.close()
    said = capsys.readouterr().err
    assert "50%" in said and "evaluated" in said
