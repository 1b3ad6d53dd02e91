"""Random numbers per sample: the same on any rank, worker and after a resume, others in the next epoch."""

import threading

import pytest
import torch
from torch.utils.data import Dataset

from hemostat.data import EvalLoader, Feed, TrainLoader, Workers, sample_rng
from hemostat.data.reading import READING


class Augmented(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, index):
        return index, sample_rng(index).random()


class AugmentedAtOnce(Augmented):
    def __getitems__(self, indices):
        draws = [sample_rng(i).random() for i in indices]
        return torch.tensor(indices), torch.tensor(draws, dtype=torch.float64)


def draws(dataset, workers=None, num_ranks=1, start_samples=0, seed=3):
    """(epoch, sample) -> what was drawn for it."""
    found = {}
    for rank in range(num_ranks):
        feed = Feed(seed=seed, global_batch=8, total_samples=120, rank=rank, num_ranks=num_ranks)
        loader = TrainLoader(dataset, feed, start_samples=start_samples, workers=workers)
        for batch in loader:
            epoch = (batch.position - 1) // 60
            indices, values = (part[: batch.num_samples].tolist() for part in batch.data)
            found |= {(epoch, index): value for index, value in zip(indices, values, strict=True)}
    return found


@pytest.mark.parametrize(
    "workers",
    [
        None,
        Workers(mode="none"),
        Workers(mode="threads", num=3),
        Workers(mode="processes", num=2),
    ],
)
@pytest.mark.parametrize("num_ranks", [1, 3])
def test_ranks_and_workers_do_not_matter(workers, num_ranks):
    alone = draws(AugmentedAtOnce())
    assert len(alone) == 120
    assert draws(Augmented(), workers, num_ranks) == alone


def test_a_resume_draws_what_the_whole_run_would_have_drawn():
    whole, rest = draws(Augmented()), draws(Augmented(), Workers(mode="threads", num=2), 2, start_samples=84)
    assert len(rest) == 36
    assert rest.items() <= whole.items()


def test_samples_epochs_and_seeds_differ():
    values = draws(Augmented())
    assert len(set(values.values())) == 120
    assert draws(Augmented(), seed=4).items().isdisjoint(values.items())


def test_evaluation_draws_the_same_each_time_also_in_the_midst_of_training():
    def judged():
        return [value for batch in EvalLoader(Augmented(), micro_batch=7) for value in batch.data[1].tolist()]

    first = judged()
    found = {}
    for batch in TrainLoader(Augmented(), Feed(seed=3, global_batch=8, total_samples=120)):
        assert judged() == first
        found |= {
            ((batch.position - 1) // 60, i): v
            for i, v in zip(batch.data[0].tolist(), batch.data[1].tolist(), strict=True)
        }
    assert found == draws(Augmented())


def test_the_numbers_never_change():
    READING.seed = READING.epoch = 0
    assert sample_rng(0).integers(1 << 30, size=3).tolist() == [492347575, 325953694, 783254411]


def test_threads_do_not_see_each_other():
    seen = []
    READING.cell[0] = 5
    thread = threading.Thread(target=lambda: seen.append(READING.cell[0]))
    thread.start()
    thread.join()
    assert seen == [-1]
