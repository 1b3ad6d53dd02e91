"""The callback in a real `lightning.Trainer`: recorded, guarded, stopped, and the same weights."""

# ruff: noqa: E402 - what needs the library comes after it was asked for

import logging
import math

import pytest
import torch

lightning = pytest.importorskip("lightning", reason="pip install 'hemostat[lightning]'")

from hemostat.errors import HemostatWarning
from hemostat.track import load_run
from hemostat.train import TrainSettings
from hemostat.train.callbacks import LightningCallback
from hemostat.train.record import DEFAULT_ROOT

pytestmark = pytest.mark.filterwarnings("ignore:The '.*_dataloader' does not have many workers")


class Net(lightning.LightningModule):
    def __init__(self, width=4, at=10**9):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, width), torch.nn.Dropout(0.2), torch.nn.Linear(width, 1)
        )
        self.at, self.seen = at, []

    def training_step(self, batch, index):
        loss = (self.net(batch[0]) - batch[1]).square().mean()
        self.seen.append(loss.item())
        return loss + 50.0 * (self.global_step >= self.at)

    def validation_step(self, batch, index):
        self.log("val_loss", (self.net(batch[0]) - batch[1]).square().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def fit(module, callbacks, **given):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    draw = torch.Generator().manual_seed(1)
    inputs = torch.randn(64, 8, generator=draw)
    data = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    quiet = dict.fromkeys(
        ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False
    )
    given = {"max_epochs": 3, "accelerator": "cpu"} | quiet | given
    trainer = lightning.Trainer(callbacks=callbacks, **given)
    loaders = (
        torch.utils.data.DataLoader(data, 8, shuffle=True),
        torch.utils.data.DataLoader(data, 16),
    )
    trainer.fit(module, *loaders)
    return trainer


def seeded(**given):
    lightning.seed_everything(3, verbose=False)
    return Net(**given)


def test_the_weights_are_those_without_it_and_the_run_is_in_the_records():
    bare, followed, callback = seeded(), None, LightningCallback(TrainSettings(usd_per_hour=3.0))
    fit(bare, [], accumulate_grad_batches=3)
    followed = seeded()
    fit(followed, [callback], accumulate_grad_batches=3)
    pairs = zip(bare.state_dict().values(), followed.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)

    record = load_run(DEFAULT_ROOT, "last")
    windows = [
        bare.seen[8 * epoch :][first:stop] for epoch in range(3) for first, stop in ((0, 3), (3, 6), (6, 8))
    ]
    losses = [value for _, _, value in record.metrics("loss")]
    assert losses == pytest.approx([sum(window) / len(window) for window in windows], rel=1e-6)
    assert [value for _, _, value in record.metrics("lr")][:5] == [0.05, 0.05, 0.025, 0.025, 0.0125]
    assert [step for step, _, _ in record.metrics("val_loss")] == [3, 6, 9]
    assert record.header["task"]["values"] == {"width": 4, "at": 10**9}
    assert record.header["hyper_parameters"]["global_batch"] == 24
    assert (record.state, record.summary["best"]) == ("done", callback.run.outcome.best)
    assert record.summary["spent"]["evaluation"] > 0


def test_a_divergence_stops_the_trainer_at_that_step():
    callback = LightningCallback()
    with pytest.warns(HemostatWarning):
        trainer = fit(seeded(at=40), [callback], max_epochs=25)
    assert trainer.global_step == callback.run.last.number == 90
    assert load_run(DEFAULT_ROOT, "last").state == "guard"


def test_it_stops_before_its_hours_are_passed_and_its_checkpoints_are_booked(tmp_path):
    saves = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path / "saved", every_n_train_steps=8)
    callback = LightningCallback(TrainSettings(max_hours="3s"))
    fit(seeded(), [callback, saves], max_epochs=10**6, enable_checkpointing=True)
    record = load_run(DEFAULT_ROOT, "last")
    assert record.state == "budget"
    assert record.summary["spent_s"] <= 3.0
    assert record.summary["spent"]["checkpoints"] > 0
    assert list((tmp_path / "saved").iterdir())


def test_an_exception_is_in_the_record():
    class Fails(Net):
        def validation_step(self, batch, index):
            if self.global_step:
                raise ValueError("a bad row")

    with pytest.raises(ValueError, match="a bad row"):
        fit(Fails(), [LightningCallback()])
    record = load_run(DEFAULT_ROOT, "last")
    assert (record.state, record.summary["reason"]) == ("failed", "a bad row")


def test_a_loop_that_steps_by_hand_is_followed_too():
    class ByHand(Net):
        def training_step(self, batch, index):
            loss = super().training_step(batch, index)
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            return loss if index % 2 else None

    lightning.seed_everything(3, verbose=False)
    module = ByHand()
    module.automatic_optimization = False
    fit(module, [LightningCallback()], max_epochs=1)
    record = load_run(DEFAULT_ROOT, "last")
    assert record.summary["steps"] == 8
    assert [value for _, _, value in record.metrics("loss")] == pytest.approx(module.seen[1::2])
    assert not any(math.isnan(value) for _, _, value in record.metrics("lr"))


SCRIPT = """
import json, os, torch, lightning
from hemostat.train import TrainSettings
from hemostat.train.callbacks import LightningCallback

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        loss = (self.net(batch[0]) - 1).square().mean()
        bad = BAD and self.global_step == 4 and self.global_rank == 1
        return loss + (float("nan") if bad else 0.0)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)

def fit(callbacks):
    lightning.seed_everything(3, verbose=False)
    module, data = Net(), torch.utils.data.TensorDataset(torch.randn(128, 8))
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy="ddp", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, callbacks=callbacks)
    trainer.fit(module, torch.utils.data.DataLoader(data, 8))
    return module.net.weight.detach().clone(), trainer

BAD = False
bare, _ = fit([])
followed, _ = fit([LightningCallback()])
same = torch.equal(bare, followed)
BAD = True
callback = LightningCallback(TrainSettings(max_skips=0))
_, trainer = fit([callback])
print("TOLD", json.dumps([trainer.global_rank, same, trainer.global_step, callback.run.stop.status]))
"""


def test_two_processes_have_the_same_weights_and_stop_together_where_one_has_the_reason(two_processes):
    assert two_processes(SCRIPT) == [[0, True, 5, 4], [1, True, 5, 4]]
