import builtins

import pytest

from hemostat.errors import MissingExtraError, RecordError
from hemostat.report import draw_loss
from hemostat.track import Recorder, create_run, load_run


@pytest.fixture
def record(tmp_path):
    path = create_run(tmp_path, "a-run", {"kind": "train"})
    with Recorder(path, 0) as recorder:
        for step in range(10):
            recorder.log(step, step, {"loss": float(step)})
        recorder.log(9, 9, {"val_loss": float("nan")})
    return load_run(tmp_path, "a-run")


def test_a_png_is_drawn(record):
    path = draw_loss(record)
    assert path.read_bytes().startswith(b"\x89PNG") and path.name == "loss.png"


def test_no_half_picture_is_seen_and_no_display_is_chosen(record, monkeypatch):
    import matplotlib

    before = matplotlib.get_backend()
    assert draw_loss(record) and matplotlib.get_backend() == before
    whole = (record.path / "loss.png").read_bytes()
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full"))
    )
    with pytest.raises(RecordError, match="cannot draw"):
        draw_loss(record)
    assert (record.path / "loss.png").read_bytes() == whole
    assert not list(record.path.glob(".loss*"))


def test_a_missing_matplotlib_names_the_pip_line(record, monkeypatch):
    load = builtins.__import__

    def without(name, *rest, **more):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return load(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'hemostat\[plot\]'"):
        draw_loss(record)
