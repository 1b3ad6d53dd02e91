"""Measured at the start, remembered by the source, overruled by settings; the same batches in every mode."""

import time
import types

import pytest
import torch
from torch.utils.data import Dataset

from hemostat.data import EvalLoader, Feed, Source, TrainLoader, Workers
from hemostat.data.choose import Choice, open_handle
from hemostat.data.delivery import checksum
from hemostat.errors import FieldError, TaskError

FEED = Feed(seed=1, global_batch=6, total_samples=150, accumulation=2)
MODES = [
    Workers(mode="none"),
    Workers(mode="threads", num=1),
    Workers(mode="threads", num=3),
    Workers(mode="processes", num=2),
]


class Rows(Dataset):
    """Rows of changing size and kind, so that a mode that mixes batches up is seen."""

    def __len__(self):
        return 50

    def __getitems__(self, indices):
        return {
            "x": torch.tensor(indices),
            "wide": torch.ones(len(indices), indices[0] + 1),
            "n": str(indices),
        }


def delivered(workers, start_samples=0):
    return [repr(batch) for batch in TrainLoader(Rows(), FEED, start_samples=start_samples, workers=workers)]


@pytest.mark.parametrize("workers", MODES)
def test_every_mode_delivers_the_same_and_resumes_at_every_step(workers):
    whole = delivered(Workers(mode="none"))
    assert delivered(workers) == whole
    for step in range(0, 25, 6):
        position = 50 * (step // 9) + min(50, 6 * (step % 9))
        assert delivered(workers, position) == whole[-len(delivered(workers, position)) :]


@pytest.mark.parametrize("workers", MODES)
def test_evaluation_in_every_mode(workers):
    batches = list(EvalLoader(Rows(), micro_batch=8, workers=workers))
    assert [row for batch in batches for row in batch.data["x"].tolist()] == list(range(50))


class Naps(Dataset):
    def __init__(self, nap_s):
        self.nap_s = nap_s

    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(self.nap_s)
        return torch.tensor(index)


def test_waiting_for_a_disk_is_given_to_threads_once_and_for_all_loaders():
    source = Source(Naps(0.002))
    feed = Feed(seed=0, global_batch=4, total_samples=100)
    assert [batch.position for batch in TrainLoader(source, feed)] == list(range(4, 101, 4))
    assert source.choice.mode == "threads"
    assert source.choice.num >= 2
    assert "times as fast as one" in source.choice.why
    chosen = source.choice
    list(TrainLoader(source, feed))
    assert source.choice is chosen


def test_random_values_are_not_given_to_several_threads():
    class Random(Naps):
        def __getitem__(self, index):
            return super().__getitem__(index) + torch.rand(1)

    source = Source(Random(0.002))
    list(TrainLoader(source, Feed(seed=0, global_batch=4, total_samples=100)))
    assert "gave other values" in source.choice.why
    assert source.choice.mode == "processes" or source.choice.num <= 1


def test_a_short_loader_leaves_the_choice_open():
    source = Source(Naps(0.0))
    assert len(list(EvalLoader(source, micro_batch=100))) == 4
    assert source.choice is None


def test_cheap_data_stay_here():
    source = Source(torch.utils.data.TensorDataset(torch.arange(4000)))
    list(TrainLoader(source, Feed(seed=0, global_batch=4, total_samples=4000)))
    assert source.choice.mode == "none"


@pytest.mark.parametrize("workers", MODES[1:])
def test_close_ends_what_an_unfinished_loop_has_left(workers):
    loader = TrainLoader(Rows(), FEED, workers=workers)
    batches = iter(loader)
    first = next(batches)
    loader.close()
    loader.close()
    assert first.data["x"].tolist() == TrainLoader(Rows(), FEED).__iter__().__next__().data["x"].tolist()
    with pytest.raises(StopIteration):
        while True:
            next(batches)


def test_checksum_sees_values_in_any_tree():
    tree = {"a": [torch.arange(3), torch.tensor(1)], "b": "text"}
    assert checksum(tree) == checksum({"a": [torch.arange(3), torch.tensor(1)], "b": "other"})
    tree["a"][0][2] = 9
    assert checksum(tree) != checksum({"a": [torch.arange(3), torch.tensor(1)], "b": "text"})


def test_processes_that_were_chosen_before_a_device_was_in_use_are_not_forked_after_it(monkeypatch):
    source = Source(Naps(0.0))
    source.choice = Choice("processes", 2, "holds the GIL")
    loader = TrainLoader(source, Feed(seed=0, global_batch=4, total_samples=100))
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    assert [batch.position for batch in loader] == list(range(4, 101, 4))
    assert source.choice.mode != "processes"
    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: False)
        asked = TrainLoader(source, loader.feed, workers=Workers(mode="processes"))
    with pytest.raises(FieldError, match="needs fork: cuda is in use"):
        next(iter(asked))


class Alone:
    """Slow data that one thread may read; two at once fail, or get each other's samples."""

    def __init__(self, fails):
        self.fails = fails
        self.held = None

    def __len__(self):
        return 512

    def __getitem__(self, index):
        if self.held is not None and self.fails:
            raise RuntimeError("the decoder is in use")
        self.held = index
        time.sleep(0.0005)
        found, self.held = self.held, None
        return torch.tensor(-1 if found is None else found), torch.tensor(index)


@pytest.mark.parametrize(
    ("fails", "why"), [(True, "two threads at once fail"), (False, "two threads at once get other values")]
)
def test_data_for_one_thread_only_are_read_by_one(fails, why):
    source = Source(Alone(fails))
    loader = TrainLoader(source, Feed(seed=0, global_batch=32, total_samples=512))
    for batch in loader:
        found, wanted = batch.data
        assert torch.equal(found, wanted)
    assert source.choice[:2] == ("threads", 1)
    assert why in source.choice.why


class Nested:
    """An open file in a list, whose position forks would share."""

    def __init__(self, path):
        self.shards = [path.open("rb")]


def test_an_open_file_is_found_in_lists_and_in_data_sets_within(tmp_path):
    path = tmp_path / "shard"
    path.write_bytes(b"x")
    nested = Nested(path)
    assert open_handle(nested) == "Nested.shards holds an open file"
    inner = types.SimpleNamespace(**{"__getitem__": None})
    joined = torch.utils.data.ConcatDataset([Listed(nested)])
    assert "holds an open file" in open_handle(joined)
    assert open_handle(inner) == ""
    nested.shards[0].close()


class Listed(torch.utils.data.Dataset):
    def __init__(self, inner):
        self.files = inner.shards

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return index


class Ending(Dataset):
    def __len__(self):
        return 50

    def __getitem__(self, index):
        if index == 6:
            time.sleep(0.4)
            raise ValueError("gone")
        return index


def test_the_wait_that_ends_in_an_error_is_counted():
    loader = EvalLoader(Ending(), micro_batch=6, workers=Workers(mode="threads", num=1))
    with pytest.raises(TaskError, match="sample 6 raised ValueError: gone"):
        list(loader)
    assert loader.waits.max_wait_s > 0.3
