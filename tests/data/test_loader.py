"""The loaders: one order for any number of ranks, exact resume, exact evaluation, nothing left behind."""

import threading
import time
from itertools import chain

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import EvalLoader, Feed, Source, TrainLoader, Workers
from hemostat.errors import FieldError, TaskError


def numbers(num_samples):
    return TensorDataset(torch.arange(num_samples))


def steps_of(num_samples, feed, start_samples=0):
    """Per window: (samples of this rank, window_samples, position, number of micro-batches)."""
    steps, samples, micro_batches = [], [], 0
    for batch in TrainLoader(numbers(num_samples), feed, start_samples=start_samples):
        samples += batch.data[0][: batch.num_samples].tolist()
        micro_batches += 1
        if batch.last:
            steps.append((samples, batch.window_samples, batch.position, micro_batches))
            samples, micro_batches = [], 0
    assert not samples
    return steps


def global_batches(num_samples, num_ranks, global_batch, total_samples, accumulation=1, start_samples=0):
    """The samples of every step, joined in rank order."""
    per_rank = [
        steps_of(
            num_samples,
            Feed(
                seed=5,
                global_batch=global_batch,
                total_samples=total_samples,
                accumulation=accumulation,
                rank=rank,
                num_ranks=num_ranks,
            ),
            start_samples,
        )
        for rank in range(num_ranks)
    ]
    joined = []
    for ranks in zip(*per_rank, strict=True):
        assert len({step[1:] for step in ranks}) == 1, (
            "ranks disagree on size, position or number of micro-batches"
        )
        joined.append([sample for step in ranks for sample in step[0]])
        assert len(joined[-1]) == ranks[0][1]
    return joined


@pytest.mark.parametrize("num_ranks", range(1, 9))
@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("global_batch", [8, 24, 29])
def test_same_ordered_global_batches_for_any_number_of_ranks(num_ranks, accumulation, global_batch):
    """T071."""
    alone = global_batches(101, 1, global_batch, 300)
    assert global_batches(101, num_ranks, global_batch, 300, accumulation) == alone


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 50), st.integers(1, 6), st.integers(1, 5), st.integers(0, 40), st.integers(1, 160))
def test_any_sizes(num_samples, num_ranks, accumulation, extra, total_samples):
    num_samples = max(num_samples, num_ranks)
    global_batch = num_ranks + extra
    alone = global_batches(num_samples, 1, global_batch, total_samples)
    assert global_batches(num_samples, num_ranks, global_batch, total_samples, accumulation) == alone


@pytest.mark.parametrize("num_samples", [7, 64, 101])
def test_every_sample_once_per_epoch_and_reshuffled(num_samples):
    """T063."""
    seen = list(chain(*global_batches(num_samples, 3, 10, 3 * num_samples)))
    epochs = [seen[start : start + num_samples] for start in range(0, 3 * num_samples, num_samples)]
    assert all(sorted(epoch) == list(range(num_samples)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_ranks_that_know_only_their_local_rank_would_collide_but_global_ranks_do_not():
    """T067."""
    mine, other = (
        steps_of(40, Feed(seed=0, global_batch=8, total_samples=40, rank=rank, num_ranks=2))
        for rank in (0, 1)
    )
    assert not {s for step in mine for s in step[0]} & {s for step in other for s in step[0]}


@settings(deadline=None, max_examples=60)
@given(st.integers(4, 60), st.integers(1, 4), st.integers(4, 20), st.data())
def test_resumed_equals_uninterrupted(num_samples, num_ranks, global_batch, data):
    total_samples = 3 * num_samples
    whole = global_batches(num_samples, num_ranks, global_batch, total_samples)
    num_done = data.draw(st.integers(0, len(whole)))
    position = sum(map(len, whole[:num_done]))
    other_ranks = data.draw(st.integers(1, 4))
    rest = global_batches(num_samples, other_ranks, global_batch, total_samples, start_samples=position)
    assert rest == whole[num_done:]


def test_resumed_with_another_global_batch_falls_back_into_step():
    rest = steps_of(100, Feed(seed=0, global_batch=16, total_samples=100), start_samples=10)
    assert [step[1] for step in rest] == [6, 16, 16, 16, 16, 16, 4]


def test_blocks_of_the_permutation_join_without_a_gap():
    assert sorted(chain(*global_batches(20_000, 2, 7, 20_000))) == list(range(20_000))


def test_a_step_with_fewer_samples_than_ranks_gives_fillers():
    """T069, T070."""
    num_ranks, fillers = 4, 0
    for rank in range(num_ranks):
        feed = Feed(seed=0, global_batch=8, total_samples=10, rank=rank, num_ranks=num_ranks)
        *_, last = TrainLoader(numbers(10), feed)
        assert last.window_samples == 2
        assert last.last
        assert len(last.data[0]) == 1
        fillers += last.num_samples == 0
    assert fillers == 2


def test_a_second_iteration_starts_again():
    loader = TrainLoader(numbers(20), Feed(seed=0, global_batch=4, total_samples=20))
    first, second = ([batch.data[0].tolist() for batch in loader] for _ in range(2))
    assert first == second


def test_nothing_is_left_to_do_at_the_end():
    assert steps_of(10, Feed(seed=0, global_batch=4, total_samples=20), start_samples=20) == []


def test_first_batch_far_inside_a_large_data_set():
    """T090."""

    class Rows(Dataset):
        def __len__(self):
            return 10**9

        def __getitems__(self, indices):
            return torch.tensor(indices)

    source = Source(Rows())
    costs_s = []
    for _ in range(10):
        feed = Feed(seed=0, global_batch=32, total_samples=10**9)
        began = time.perf_counter()
        next(iter(TrainLoader(source, feed, start_samples=10**7)))
        costs_s.append(time.perf_counter() - began)
    assert min(costs_s) < 1e-3


def test_impossible_numbers_are_refused_before_the_first_batch():
    with pytest.raises(TaskError, match="3 samples for 4 ranks"):
        TrainLoader(numbers(3), Feed(seed=0, global_batch=8, total_samples=10, num_ranks=4))
    with pytest.raises(FieldError, match="start_samples=-1"):
        TrainLoader(numbers(3), Feed(seed=0, global_batch=8, total_samples=10), start_samples=-1)
    with pytest.raises(FieldError, match=r"start_samples=2.5: must be a whole number"):
        TrainLoader(numbers(3), Feed(seed=0, global_batch=8, total_samples=10), start_samples=2.5)
    with pytest.raises(
        FieldError, match=r"start_samples=11: lies behind the end of the run, total_samples=10"
    ):
        TrainLoader(numbers(3), Feed(seed=0, global_batch=8, total_samples=10), start_samples=11)
    for wrong in (0, 1.5, "4"):
        with pytest.raises(FieldError, match=f"micro_batch={wrong!r}: must be a whole number"):
            EvalLoader(numbers(3), micro_batch=wrong)
    with pytest.raises(FieldError, match="rank=3"):
        EvalLoader(numbers(3), micro_batch=1, rank=3, num_ranks=3)


@pytest.mark.parametrize("num_ranks", range(1, 5))
@pytest.mark.parametrize("micro_batch", [1, 3, 4])
def test_evaluation_visits_each_row_once(num_ranks, micro_batch):
    for num_samples in range(1, 18):
        loaders = [
            EvalLoader(numbers(num_samples), micro_batch=micro_batch, rank=rank, num_ranks=num_ranks)
            for rank in range(num_ranks)
        ]
        ranks = [list(loader) for loader in loaders]
        assert {len(batches) for batches in ranks} == {len(loaders[0])}
        rows = [row for batches in ranks for b in batches for row in b.data[0][: b.num_samples].tolist()]
        assert rows == list(range(num_samples))
        for together in zip(*ranks, strict=True):
            assert len({(b.window_samples, b.position, b.last) for b in together}) == 1
            assert sum(b.num_samples for b in together) == together[0].window_samples
            assert all(len(b.data[0]) >= 1 for b in together)
        assert ranks[0][-1].position == num_samples
        assert [b.last for b in ranks[0]] == [False] * (len(ranks[0]) - 1) + [True]


def test_a_pooled_mean_is_exact_where_padding_is_not():
    # Seven values on two ranks: a padding sampler evaluates eight and finds 25.0 (bug report T054).
    values = torch.tensor([0.0, 0, 0, 0, 0, 0, 100.0])
    total = count = 0.0
    for rank in range(2):
        for batch in EvalLoader(TensorDataset(values), micro_batch=2, rank=rank, num_ranks=2):
            total += batch.data[0][: batch.num_samples].sum().item()
            count += batch.num_samples
    assert total / count == pytest.approx(100 / 7)


class Slow(Dataset):
    """Dear enough for reading ahead; one sample may be broken."""

    def __init__(self, num_samples=200, broken=None):
        self.num_samples = num_samples
        self.broken = broken
        self.threads = set()

    def __len__(self):
        return self.num_samples

    def __getitem__(self, index):
        self.threads.add(threading.current_thread().name)
        time.sleep(0.0002)
        if index == self.broken:
            raise ValueError("broken image")
        return torch.tensor(index)


def read_ahead_threads():
    return [thread for thread in threading.enumerate() if thread.name == "hemostat-read-ahead"]


def test_a_dear_data_set_is_read_ahead_and_gives_the_same():
    feed = Feed(seed=0, global_batch=4, total_samples=200)
    slow = Slow()
    loader = TrainLoader(slow, feed)
    found = [sample for batch in loader for sample in batch.data.tolist()]
    assert found == [sample for step in steps_of(200, feed) for sample in step[0]]
    assert "hemostat-read-ahead" in slow.threads
    assert not read_ahead_threads()
    assert loader.waits.num_fetches == 50


def test_a_cheap_data_set_is_read_here():
    loader = TrainLoader(numbers(4000), Feed(seed=0, global_batch=4, total_samples=4000))
    for number, _ in enumerate(loader):
        if number > 20:
            assert not read_ahead_threads()
            break


def test_reading_ahead_hides_the_fetch():
    loader = TrainLoader(Slow(), Feed(seed=0, global_batch=4, total_samples=200))
    for _ in loader:
        time.sleep(0.004)
    # the first eight fetches are synchronous, the other 42 hide behind the steps
    assert loader.waits.wait_s < 0.6 * loader.waits.fetch_s


def test_waits_are_measured_where_the_consumer_stands():
    loader = TrainLoader(Slow(), Feed(seed=0, global_batch=4, total_samples=200))
    began = time.perf_counter()
    for _ in loader:
        pass
    wall_s = time.perf_counter() - began
    assert loader.waits.share(wall_s) > 0.9


def test_no_thread_is_left_after_break():
    for number, _ in enumerate(TrainLoader(Slow(), Feed(seed=0, global_batch=4, total_samples=200))):
        if number == 15:
            assert read_ahead_threads()
            break
    assert not read_ahead_threads()


def test_no_thread_is_left_after_an_exception_in_the_loop():
    def train():
        for number, _ in enumerate(TrainLoader(Slow(), Feed(seed=0, global_batch=4, total_samples=200))):
            if number == 15:
                raise RuntimeError("from the training step")

    with pytest.raises(RuntimeError, match="from the training step"):
        train()
    assert not read_ahead_threads()


def test_a_broken_sample_is_named_from_the_thread_too():
    order = [
        sample
        for step in steps_of(200, Feed(seed=0, global_batch=4, total_samples=200))
        for sample in step[0]
    ]
    broken = order[100]
    loader = TrainLoader(Slow(broken=broken), Feed(seed=0, global_batch=4, total_samples=200))
    seen = 0
    with pytest.raises(
        TaskError, match=rf"sample {broken} raised ValueError: broken image at .*test_loader\.py:\d+"
    ):
        for _ in loader:
            seen += 1
    assert seen == 25, "the batches before it are delivered first"
    assert not read_ahead_threads()


def test_evaluation_leaves_no_thread_either():
    for number, _ in enumerate(EvalLoader(Slow(), micro_batch=4)):
        if number == 15:
            break
    assert not read_ahead_threads()


class Growing(Dataset):
    """One sample more, or half of them, after some reads."""

    def __init__(self, num_samples, change, after):
        self.num_samples, self.change, self.left = num_samples, change, after

    def __len__(self):
        return self.num_samples

    def __getitem__(self, index):
        self.left -= 1
        if not self.left:
            self.num_samples = self.change(self.num_samples)
        return torch.tensor(index)


@pytest.mark.parametrize("mode", ["none", "threads"])
@pytest.mark.parametrize("after", [30, 300, 400])
def test_a_length_that_changes_ends_the_run_by_the_end_of_that_epoch(mode, after):
    feed = Feed(seed=0, global_batch=20, total_samples=400)
    loader = TrainLoader(Growing(200, lambda num: num // 2, after), feed, workers=Workers(mode=mode))
    seen = []
    with pytest.raises(TaskError, match="train_data had 200 samples at the start and has 100 now"):
        seen += [batch.position for batch in loader]
    loader.close()


def test_a_length_that_grows_ends_an_evaluation_too():
    with pytest.raises(TaskError, match="val_data had 9 samples at the start and has 10 now"):
        list(EvalLoader(Growing(9, lambda num: num + 1, 4), micro_batch=3))


def test_a_stretch_of_rows_comes_in_whole_batches():
    loader = EvalLoader([*range(20)], micro_batch=4, rows=range(8, 19))
    assert [batch.data.tolist() for batch in loader] == [[8, 9, 10, 11], [12, 13, 14, 15], [16, 17, 18]]
    assert len(loader) == 3
