import pytest
import torch

from hemostat.errors import RecordError
from hemostat.train.checkpoint import save_weights


def test_weights_come_back_without_pickle(tmp_path):
    model = torch.nn.Linear(3, 2)
    save_weights(model, tmp_path / "checkpoints" / "best.pt")
    state = torch.load(tmp_path / "checkpoints" / "best.pt", weights_only=True)
    other = torch.nn.Linear(3, 2)
    other.load_state_dict(state)
    assert torch.equal(other.weight, model.weight)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["best.pt"]


def test_a_failed_save_leaves_the_old_file_whole(tmp_path, monkeypatch):
    path = tmp_path / "best.pt"
    save_weights(torch.nn.Linear(3, 2), path)
    before = path.read_bytes()

    def full(state, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(RecordError, match="No space left"):
        save_weights(torch.nn.Linear(3, 2), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
