"""Streams: shared out exactly over ranks, resumed, epochs told, and refused where they would lose samples."""

from itertools import chain

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from hemostat.data import EvalLoader, Feed, Source, Stream, TrainLoader, Workers
from hemostat.errors import FieldError, TaskError


class Lines(IterableDataset):
    """41 numbers, those of another epoch a thousand higher."""

    def __init__(self, length=41):
        self.epoch = 0
        self.length = length

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        for number in range(self.length):
            yield torch.tensor(number + 1000 * self.epoch)


class CountedLines(Lines):
    def __len__(self):
        return self.length


def global_batches(data, num_ranks, start_samples=0, workers=None):
    ranks = []
    for rank in range(num_ranks):
        feed = Feed(
            seed=0, global_batch=10, total_samples=123, accumulation=2, rank=rank, num_ranks=num_ranks
        )
        rows, steps = [], []
        for batch in TrainLoader(data, feed, start_samples=start_samples, workers=workers):
            rows += batch.data[: batch.num_samples].tolist()
            if batch.last:
                steps.append(rows)
                rows = []
        ranks.append(steps)
    return [list(chain(*parts)) for parts in zip(*ranks, strict=True)]


EXPECTED = [
    list(range(1000 * epoch + start, 1000 * epoch + min(start + 10, 41)))
    for epoch in range(3)
    for start in range(0, 41, 10)
]


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("workers", [None, Workers(mode="threads", num=4)])
def test_the_same_global_batches_for_any_number_of_ranks_none_lost_none_twice(num_ranks, workers):
    assert global_batches(CountedLines(), num_ranks, workers=workers) == EXPECTED


@pytest.mark.parametrize("num_ranks", [1, 3])
def test_resumed_inside_an_epoch(num_ranks):
    assert global_batches(Stream(Lines(), 41), num_ranks, start_samples=61) == EXPECTED[7:]


@pytest.mark.parametrize("num_ranks", [1, 2, 5, 50])
def test_evaluation_reads_each_row_once(num_ranks):
    ranks = [
        list(EvalLoader(CountedLines(), micro_batch=4, rank=rank, num_ranks=num_ranks))
        for rank in range(num_ranks)
    ]
    assert len({len(rank) for rank in ranks}) == 1
    assert [row for rank in ranks for b in rank for row in b.data[: b.num_samples].tolist()] == list(
        range(41)
    )
    assert all(len(batch.data) >= 1 for rank in ranks for batch in rank)


def test_two_loaders_of_one_source_do_not_disturb_each_other():
    source = Source(CountedLines())
    feed = Feed(seed=0, global_batch=10, total_samples=41)
    pairs = zip(TrainLoader(source, feed), TrainLoader(source, feed), strict=True)
    assert all(left.data.tolist() == right.data.tolist() for left, right in pairs)


def test_a_loader_around_a_stream_gives_its_collation():
    source = Source(DataLoader(CountedLines(), batch_size=8, collate_fn=sum))
    assert source.reader()(torch.tensor([2, 3])) == 5
    assert source.declared_batch == 8


def test_one_reader_only():
    source = Source([0, 1])
    assert source.stream is None
    list(
        TrainLoader(source := Source(CountedLines(4000)), Feed(seed=0, global_batch=400, total_samples=4000))
    )
    assert source.choice.num <= 1
    with pytest.raises(FieldError, match=r"workers\.mode='processes': cannot read a stream"):
        next(iter(EvalLoader(source, micro_batch=2, workers=Workers(mode="processes"))))


def test_a_stream_that_is_shorter_than_it_says():
    with pytest.raises(TaskError, match=r"train_data ended before sample 41 of 50.*num_samples="):
        list(TrainLoader(Stream(Lines(), 50), Feed(seed=0, global_batch=10, total_samples=50)))


def test_what_would_lose_samples_is_refused():
    with pytest.raises(TaskError, match="a generator can be read once only"):
        Stream((i for i in range(3)), 3)
    with pytest.raises(FieldError, match="num_samples=0"):
        Stream(Lines(), 0)
    split = Lines()
    split._distributed = (0, 2)
    with pytest.raises(TaskError, match="Leave that call out"):
        Stream(split, 41)


def test_a_hugging_face_stream_skips_by_itself():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": range(41)}).to_iterable_dataset(num_shards=3)
    feed = Feed(seed=0, global_batch=10, total_samples=41)
    found = [b.data["x"].tolist() for b in TrainLoader(Stream(table, 41), feed, start_samples=10)]
    assert found == [list(range(10, 20)), list(range(20, 30)), list(range(30, 40)), [40]]
