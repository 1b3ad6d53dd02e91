"""`Rehearsal`: makes each session of this process short, exact and watched, for `hemostat verify`."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from hemostat.config import Config
from hemostat.data import MicroBatch, Source, Stream, Workers
from hemostat.recipe import Devices
from hemostat.track import update_run
from hemostat.train.control import Stop
from hemostat.train.guards import leaves_digest
from hemostat.train.optimizer_state import param_names
from hemostat.train.parallel import dp
from hemostat.train.process import seed_everything
from hemostat.train.repeats import random_reads, seeded
from hemostat.train.traces import Job, StepTrace, Trace
from hemostat.train.watch import Given, Watch

if TYPE_CHECKING:
    from hemostat.train.session import Session

BATCH_PER_RANK = 8
MOST_BATCH = 32  # beyond what the ranks need, a larger batch proves nothing more
_RATES = ("dropout", "dropout_p", "attention_dropout", "attn_dropout", "resid_dropout", "hidden_dropout")


class Plan(Config, frozen=True, kw_only=True):
    """What all jobs of one verification have in common.

    Attributes:
        most_ranks: of any job; the batch has 8 samples for each of them at least.
        dtype: "float64" or "float32".
    """

    most_ranks: int = 1
    dtype: str = "float64"


class Leg(NamedTuple):
    """One short run within a job.

    Attributes:
        name: of its trace.
        accumulation: micro-batches in a step.
        plain: dropout off, BatchNorm in evaluation mode, random data seeded.
        batch_norm: BatchNorm stays as it is in a plain leg.
        shift: added to the seed of the random numbers, not to that of the order.
        stops: it is interrupted on the way.
        resumes: it goes on from the leg before.
        folder: name of its run directory.
    """

    name: str
    accumulation: int = 1
    plain: bool = True
    batch_norm: bool = False
    shift: int = 0
    stops: bool = False
    resumes: bool = False
    folder: str = ""


class Few(Source):
    """The first samples of a source, floating tensors in one dtype. A stream of several parts stays whole.

    Examples:
        >>> few = Few(Source([(torch.ones(2, dtype=torch.float32), i) for i in range(9)]), 4, torch.float64)
        >>> few.num_samples, few.fetch(torch.tensor([3, 0]))[0].dtype
        (4, torch.float64)
    """

    def __init__(self, source: Source, num: int, dtype: torch.dtype) -> None:
        self.__dict__.update(source.__dict__)
        self._whole, self._dtype = source, dtype
        if source.stream is None:
            self.fetch = lambda indices: cast(source.fetch(indices), dtype)
        elif len(source.stream.parts) == 1:
            self.stream = self.dataset = Stream(source.stream.items, min(num, source.num_samples))
        else:
            num = source.num_samples
        self.num_samples = min(num, source.num_samples)

    def collate(self, samples: list[Any], indices: list[int]) -> Any:
        """As the source does, cast."""
        return cast(self._whole.collate(samples, indices), self._dtype)


def cast(tree: Any, dtype: torch.dtype) -> Any:
    """A batch with every floating tensor in `dtype`."""
    if isinstance(tree, Tensor):
        return tree.to(dtype) if tree.is_floating_point() else tree
    if isinstance(tree, dict):
        return {key: cast(value, dtype) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(cast(value, dtype) for value in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(cast(value, dtype) for value in tree)
    return tree


class Rehearsal(Watch):
    """What looks on during a verification.

    Args:
        plan: of all jobs.

    Attributes:
        job: what this process has seen; complete on rank 0.
        session: the first one of the present leg, which is the one that is watched.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._dtype = getattr(torch, plan.dtype)
        self.job = Job()
        self.session: Session | None = None
        self._leg = Leg("real")
        self._trace = Trace()
        self._gradients: dict[str, list[float]] = {}
        self._gradient_digest = ""
        self._rates: list[float] = []
        self._micros: list[tuple[list[str], float, float]] = []
        self._small = (0, 0)

    @property
    def stops(self) -> bool:
        """The present leg is to be interrupted."""
        return self._leg.stops

    def begin(self, leg: Leg) -> None:
        """The next session is of this leg."""
        self._leg, self._trace, self.session = leg, Trace(), None

    def end(self) -> bool:
        """Close the leg's session and keep its trace; False if there was none."""
        if self.session is None:
            return False
        self.session.close()
        self._trace.metrics = {name: float(value) for name, value in self.session.outcome.final.items()}
        self.job.traces[self._leg.name] = self._trace
        return True

    def shrink(self, given: Given) -> Given:
        """A few samples and steps, one dtype, the CPU."""
        model, data, base, _, settings = given
        source = data if isinstance(data, Source) else Source(data, "train_data")
        wanted = max(BATCH_PER_RANK * self._plan.most_ranks, min(MOST_BATCH, base.tuned_batch))
        batch = min(wanted, source.num_samples)
        few = Few(source, 2 * batch + batch // 2 + 1, self._dtype)
        self._small = (batch, few.num_samples)
        self.job.samples, self.job.of_samples, self.job.batch = few.num_samples, source.num_samples, batch
        enough = few.num_samples > batch
        base = msgspec.structs.replace(
            base,
            tuned_batch=batch,
            total_samples=2 * few.num_samples,
            epochs=None,
            num_train_samples=None,
            warmup_steps=min(base.warmup_steps or 0, int(enough)),
            milestones=(1.0,) if base.schedule == "step" else (),
            patience=None,
            plateau_patience=None,
            eval_every_samples=few.num_samples,
            checkpoint_every_samples=None,
            critical_batch=None,
            noise_scale=None,
            objective=None,
            apply_advice=(),
            precision="fp32",
        )
        settings = msgspec.structs.replace(
            settings,
            device="cpu",
            precision="fp32",
            self_check=False,
            guards=(),
            find_micro_batch=False,
            lr_range=False,
            workers=Workers(mode="none"),
            record=True,
            save=True,
            save_every_s=None,
            resume="last" if self._leg.resumes else None,
        )
        devices = Devices(global_batch=batch, accumulation=self._leg.accumulation)
        return model.to(self._dtype), few, base, devices, settings

    def few(self, data: Any) -> Any:
        """The first rows."""
        return Few(data if isinstance(data, Source) else Source(data), 2 * self._small[0] + 1, self._dtype)

    def built(self, session: Session) -> None:
        """Follow the first session of a leg."""
        if session.record.describes and session.record.path is not None:
            update_run(
                session.record.path, kind="verify"
            )  # what the run is made of is not worth its time here
        session.record.describes = False
        if self.session is not None:
            return
        self.session = session
        leg, batch, num = self._leg, *self._small
        if leg.stops:
            cut = num + batch if num > batch else num
            stop = Stop("the cut of a verification", 75)
            session.control.askers.append(lambda samples: stop if samples >= cut else None)
        model = dp.unwrap(session.model)
        norms = [name for name, part in model.named_modules() if isinstance(part, _BatchNorm)]
        self.job.batch_norms = norms
        if leg.plain:
            self._make_plain(session, model)
        if leg.shift:
            seed_everything(session.settings.seed + 1 + session.world.rank + leg.shift)
        names = param_names(model, session.updater.optimizer)
        pairs = list(zip(names, session.updater.params, strict=True))

        def before_step(optimizer: torch.optim.Optimizer, *_: object) -> None:
            self._rates = [float(group["lr"]) for group in optimizer.param_groups]
            found = {name: p.grad for name, p in pairs if p.grad is not None}
            self._gradients = {name: sketch(grad, name) for name, grad in found.items()}
            self._gradient_digest = leaves_digest(found)

        session.updater.optimizer.register_step_pre_hook(before_step)

    def _make_plain(self, session: Session, model: nn.Module) -> None:
        self.job.dropouts = []
        for name, part in model.named_modules():
            if isinstance(part, _BatchNorm) and not self._leg.batch_norm:
                part.eval()
                part.train = lambda mode=True, part=part: part  # type: ignore[method-assign, misc]
            rates = (
                ["p"] if isinstance(part, _DropoutNd) else [rate for rate in _RATES if hasattr(part, rate)]
            )
            for rate in rates:
                if isinstance(value := getattr(part, rate), float) and value > 0:
                    setattr(part, rate, 0.0)
                    self.job.dropouts.append(name or type(part).__name__)
        found = random_reads(session)
        self.job.random_data = self.job.random_data or found
        if found:
            session.source = seeded(session.source)
            session.loader = session.new_loader()
        source = session.source
        if not source.stream and not self.job.samples_seen:
            mine = [
                leaves_digest(source.fetch(torch.tensor([i]))) for i in range(min(16, source.num_samples))
            ]
            self.job.samples_seen = session.world.gather(json.dumps(mine))

    def after(self, session: Session, micro: MicroBatch, loss_sum: Tensor, count: Any) -> None:
        """Note a micro-batch, and what all ranks did with the window after its last one."""
        if session is not self.session:
            return
        rows = row_digests(micro.data, micro.num_samples)
        num = float(count) if micro.num_samples else 0.0
        self._micros.append((rows, float(loss_sum.detach()) if micro.num_samples else 0.0, num))
        if not micro.last or session.last is None:
            return
        model = dp.unwrap(session.model)
        weights = {name: sketch(value, name) for name, value in model.named_parameters()}
        digest = leaves_digest([value.detach() for value in model.parameters()])
        mine = json.dumps([self._micros, digest])
        everyone = [json.loads(text) for text in session.world.gather(mine)]
        micros = [micro for parts, _ in everyone for micro in parts]
        self._trace.steps.append(
            StepTrace(
                samples=session.last.samples,
                rows=[row for part, _, _ in micros for row in part],
                loss_sum=sum(value for _, value, _ in micros),
                count=sum(value for _, _, value in micros),
                pieces=sum(bool(part) for part, _, _ in micros),
                gradients=self._gradients,
                gradient_digest=self._gradient_digest,
                rates=self._rates,
                weights=weights,
                digests=[digest for _, digest in everyone],
            )
        )
        self._micros, self._gradients, self._rates = [], {}, []


def sketch(tensor: Tensor, name: str) -> list[float]:
    """Norm and four random projections: two tensors of one name can be compared without keeping them.

    The mean square of the differences of the projections estimates the squared norm of the difference.

    Source: Alon, Matias & Szegedy 1996 (tug-of-war sketch), section 2.2.
    """
    flat = tensor.detach().to(torch.float64).flatten()
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    found = [float(torch.linalg.vector_norm(flat))]
    for _ in range(4):
        signs = torch.randint(0, 2, (len(flat),), generator=generator, dtype=torch.int8) * 2 - 1
        found.append(float(flat @ signs.to(torch.float64)))
    return found


def row_digests(batch: Any, num: int) -> list[str]:
    """One text for each of the first `num` rows of a batch."""
    return [leaves_digest(_row(batch, row)) for row in range(num)]


def _row(tree: Any, row: int) -> Any:
    if isinstance(tree, Tensor):
        return tree[row] if tree.dim() and len(tree) > row else tree
    if isinstance(tree, dict):
        return {key: _row(value, row) for key, value in tree.items()}
    if isinstance(tree, tuple | list):
        return [_row(value, row) for value in tree]
    return tree
