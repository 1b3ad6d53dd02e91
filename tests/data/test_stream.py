"""Streams: shared out exactly over ranks, resumed, epochs told, and refused where they would lose samples."""

import warnings
from itertools import chain

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from hemostat.data import EvalLoader, Feed, Source, Stream, TrainLoader, Workers
from hemostat.errors import FieldError, HemostatWarning, TaskError


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
    """T066."""
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
    with pytest.raises(TaskError, match=r"num_samples=50 of train_data is wrong: the data have 41\."):
        list(TrainLoader(Stream(Lines(), 50), Feed(seed=0, global_batch=10, total_samples=50)))
    far = Feed(seed=0, global_batch=10, total_samples=70)
    with pytest.raises(TaskError, match=r"num_samples=70 of train_data is wrong: the data have at most 60\."):
        list(TrainLoader(Stream(Lines(), 70), far, start_samples=60))


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_a_stream_that_is_longer_than_it_says_is_told_once_by_who_reads_its_end(num_ranks):
    stream = Stream(Lines(), 30)
    warned = []
    for rank in range(num_ranks):
        feed = Feed(seed=0, global_batch=10, total_samples=90, rank=rank, num_ranks=num_ranks)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            list(TrainLoader(stream, feed))
        warned += [str(each.message) for each in caught if each.category is HemostatWarning]
    assert len(warned) == 1
    assert warned[0].startswith("train_data has more than num_samples=30: each epoch begins at its start")


def test_what_would_lose_samples_is_refused():
    with pytest.raises(TaskError, match="a generator can be read once only"):
        Stream((i for i in range(3)), 3)
    for wrong in (0, 2.5, "x", None, [], [3, 0], [3, 1.5]):
        with pytest.raises(FieldError, match=r"num_samples=.*must be counts, 1 or more"):
            Stream(Lines(), wrong)
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


class Files:
    """Numbers, those of the next file a thousand higher; what is read of each file is counted."""

    def __init__(self, lengths, chosen=None, read=None):
        self.lengths = lengths
        self.chosen = range(len(lengths)) if chosen is None else chosen
        self.read = {} if read is None else read
        self.epoch = 0

    def shard(self, num_shards, index):
        assert num_shards == len(self.lengths)
        return Files(self.lengths, [index], self.read)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        for file in self.chosen:
            for number in range(self.lengths[file]):
                self.read[file] = self.read.get(file, 0) + 1
                yield torch.tensor(1000 * file + number + 100_000 * self.epoch)


@pytest.mark.parametrize("lengths", [[30, 30, 30, 33], [7, 41, 1, 74]])
def test_a_split_stream_gives_the_same_global_batches_for_any_number_of_ranks(lengths):
    stream = Stream(Files(lengths), lengths)
    whole = global_batches(stream, 1)
    assert [len(batch) for batch in whole] == [10] * 12 + [3]
    every = [1000 * file + number for file, length in enumerate(lengths) for number in range(length)]
    assert sorted(chain(*whole)) == every
    for num_ranks in (2, 3, 4, 7, 8):
        assert global_batches(stream, num_ranks) == whole
    for num_ranks in (1, 3):
        assert global_batches(stream, num_ranks, start_samples=50) == whole[5:]
    assert global_batches(stream, 2, workers=Workers(mode="threads", num=2)) == whole


def test_a_rank_reads_its_own_parts_only_and_another_epoch_is_told():
    reads = []
    for rank in range(2):
        files = Files([30] * 4)
        feed = Feed(seed=0, global_batch=12, total_samples=240, rank=rank, num_ranks=2)
        rows = [row for batch in TrainLoader(Stream(files, [30] * 4), feed) for row in batch.data.tolist()]
        assert len(rows) == 120
        assert {row // 100_000 for row in rows} == {0, 1}
        reads.append(files.read)
    assert reads == [{0: 60, 1: 60}, {2: 60, 3: 60}]


def test_resuming_skips_in_its_own_parts_only():
    files = Files([30] * 4)
    feed = Feed(seed=0, global_batch=12, total_samples=120, rank=1, num_ranks=2)
    batch = next(iter(TrainLoader(Stream(files, [30] * 4), feed, start_samples=60)))
    assert batch.data.tolist() == [2015, 2016, 2017, 3015, 3016, 3017]
    assert files.read == {2: 18, 3: 18}


def test_evaluation_of_a_split_stream_reads_each_row_once_and_in_order():
    lengths = [7, 5, 9]
    rows = [
        row
        for rank in range(3)
        for batch in EvalLoader(Stream(Files(lengths), lengths), micro_batch=4, rank=rank, num_ranks=3)
        for row in batch.data[: batch.num_samples].tolist()
    ]
    assert rows == [1000 * file + number for file, length in enumerate(lengths) for number in range(length)]


def test_parts_that_are_not_as_long_as_was_said():
    feed = Feed(seed=0, global_batch=4, total_samples=20)
    with pytest.raises(TaskError, match=r"part 1 of train_data ended before its sample 9 of 11"):
        list(TrainLoader(Stream(Files([9, 9]), [9, 11]), feed))
    with pytest.raises(TaskError, match=r"part 0 of train_data has more than the 7 samples"):
        list(TrainLoader(Stream(Files([9, 9]), [7, 9]), feed))
    with pytest.raises(TaskError, match=r"2 lengths, but Lines has no shard\(num_shards, index\)"):
        Stream(Lines(), [20, 21])


def test_it_is_said_where_every_rank_reads_all_of_what_could_be_split():
    feed = Feed(seed=0, global_batch=4, total_samples=20, num_ranks=2)
    with pytest.warns(HemostatWarning, match="each of the 2 ranks reads the whole stream"):
        TrainLoader(Stream(Files([9, 9]), 18), feed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrainLoader(Stream(Files([9, 9]), [9, 9]), feed)
        TrainLoader(Stream(Lines(), 41), feed)  # nothing to be done about it


def test_a_hugging_face_stream_in_parts():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": range(40)}).to_iterable_dataset(num_shards=4)
    found = []
    for rank in range(2):
        feed = Feed(seed=0, global_batch=8, total_samples=40, rank=rank, num_ranks=2)
        loader = TrainLoader(Stream(table, [10] * 4), feed, start_samples=8)
        found.append([batch.data["x"].tolist() for batch in loader])
    assert found[0] == [[k, k + 1, 10 + k, 11 + k] for k in (2, 4, 6, 8)]
    assert found[1] == [[20 + k, 21 + k, 30 + k, 31 + k] for k in (2, 4, 6, 8)]
    with pytest.raises(TaskError, match="has only 4 shards"):
        Stream(table, [8] * 5)
