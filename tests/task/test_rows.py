import pytest
import torch

from hemostat.errors import TaskError
from hemostat.task import LossDoor, Task
from hemostat.task.rows import row_pairs


class Words(Task):
    def loss(self, output, target):
        total = torch.nn.functional.cross_entropy(
            output["logits"].flatten(0, 1), target.flatten(), reduction="sum"
        )
        return total, (target >= 0).sum()

    def metrics(self, output, target):
        return {"right": ((output["logits"].argmax(-1) == target).sum(), target.numel()), "object": Kept()}


class Kept:
    """Stands where a torchmetrics object would."""

    num_updates = 0

    def update(self, output, target):
        Kept.num_updates += 1

    def compute(self):
        return 0.0


def batch(rows=4):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, 5, 7, generator=generator)
    return {"logits": logits, "scale": torch.tensor(2.0)}, torch.randint(0, 7, (rows, 5), generator=generator)


def test_the_rows_add_up_to_the_batch():
    output, target = batch()
    rows = list(row_pairs(Words(), output, target))
    assert len(rows) == 4 and rows[0].keys() == {"loss", "right"}
    total, count = Words().loss(output, target)
    assert sum(row["loss"][0] for row in rows) == pytest.approx(float(total))
    assert sum(row["loss"][1] for row in rows) == int(count) == 20
    assert Kept.num_updates == 0


def test_what_cannot_be_cut_is_said():
    with pytest.raises(TaskError, match="leading dimension"):
        list(row_pairs(Words(), torch.zeros(3, 2), torch.zeros(4)))

    class Picky(Words):
        def loss(self, output, target):
            raise ValueError("at least two rows")

    with pytest.raises(TaskError, match="at least two rows"):
        list(row_pairs(Picky(), *batch()))


def test_a_door_without_rows_gives_none():
    class Own(Task):
        def step(self, model, batch):
            return model(batch).mean()

    class Picky(Words):
        def loss(self, output, target):
            if len(target) == 1:
                raise ValueError("at least two rows")
            return super().loss(output, target)

    inputs = torch.ones(4, 2, requires_grad=True)
    door = LossDoor(Own())
    assert door.rows(door.compute(torch.nn.Identity(), inputs)) is None

    class Logits(torch.nn.Module):
        def forward(self, logits):
            return {"logits": logits}

    output, target = batch()
    for kind, expected in ((Words, 4), (Picky, None)):
        door = LossDoor(kind())
        rows = door.rows(door.compute(Logits(), (output["logits"].requires_grad_(), target)))
        assert (rows and len(rows)) == expected
