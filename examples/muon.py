"""Muon: momentum with orthogonal updates, for the matrices inside a network; AdamW for the other parameters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

NUM_ITERATIONS = 5
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalised(matrix: Tensor) -> Tensor:
    """About the nearest matrix with orthonormal rows or columns: all singular values come near 1.

    Each iteration maps every singular value s to a*s + b*s^3 + c*s^5 and leaves the singular vectors.

    Args:
        matrix: shape (rows, columns).

    Returns:
        The same shape and dtype; singular values between about 0.7 and 1.2.

    Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks" (coefficients and count).

    Examples:
        >>> skewed = torch.tensor([[3.0, 0.0, 0.0], [0.0, 0.2, 0.0]])
        >>> values = torch.linalg.svdvals(orthogonalised(skewed))
        >>> bool((values > 0.6).all() and (values < 1.3).all())
        True
    """
    a, b, c = _COEFFICIENTS
    wide = matrix if matrix.size(0) <= matrix.size(1) else matrix.T
    x = wide / (wide.norm() + 1e-7)
    for _ in range(NUM_ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x if wide is matrix else x.T


class Muon(torch.optim.Optimizer):
    """One optimizer for the whole model; the same on every rank, because gradients are averaged before it runs.

    Args:
        matrices: hidden weight matrices of shape (outputs, inputs).
        others: everything else; it gets AdamW without weight decay.
        lr: of the matrices.
        other_lr: of the others.
        momentum: of the matrices, in Nesterov's form.
        betas: of the others.

    Source: Jordan et al. 2024 (update, and the factor for tall matrices); Kingma and Ba 2015 (arXiv 1412.6980).
    """

    def __init__(
        self,
        matrices: Iterable[Tensor],
        others: Iterable[Tensor],
        lr: float,
        other_lr: float,
        momentum: float = 0.95,
        betas: tuple[float, float] = (0.9, 0.95),
    ) -> None:
        groups = [
            {"params": list(matrices), "lr": lr, "orthogonal": True},
            {"params": list(others), "lr": other_lr, "orthogonal": False},
        ]
        super().__init__(groups, {"momentum": momentum, "betas": betas, "eps": 1e-8})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            update = self._muon if group["orthogonal"] else self._adam
            for param in group["params"]:
                if param.grad is not None:
                    update(param, param.grad, group)

    def _muon(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[param]
        if not state:
            state["momentum"] = torch.zeros_like(param)
        average = state["momentum"].lerp_(grad, 1 - group["momentum"])
        direction = orthogonalised(grad.lerp(average, group["momentum"]))
        tall = max(1.0, param.size(0) / param.size(1)) ** 0.5
        param.add_(direction, alpha=-group["lr"] * tall)

    def _adam(self, param: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        state = self.state[param]
        if not state:
            state.update(step=0, mean=torch.zeros_like(param), square=torch.zeros_like(param))
        beta1, beta2 = group["betas"]
        state["step"] += 1
        mean = state["mean"].lerp_(grad, 1 - beta1)
        square = state["square"].lerp_(grad * grad, 1 - beta2)
        scale = (square / (1 - beta2 ** state["step"])).sqrt_().add_(group["eps"])
        param.addcdiv_(mean, scale, value=-group["lr"] / (1 - beta1 ** state["step"]))
