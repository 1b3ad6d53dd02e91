"""GaussianProcess: what the values seen so far say about a point of the unit cube, and how sure that is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

_NUM_STEPS: Final = 14  # of the fit; each inverts a matrix, and a proposal has 20 ms
_LENGTH_PRIOR: Final = (0.5, 0.7)  # median per sqrt(dim) and spread of the logarithm
_NOISE_PRIOR: Final = (0.01, 1.5)
_NOISE_RANGE: Final = (1e-6, 1.0)
_UNORDERED: Final = 0.25  # squared distance of two names, that of two numbers half a range apart


class GaussianProcess:
    """A Matern 5/2 kernel with one length per dimension, lengths and noise at their most likely values.

    Source: Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 2.2 (prediction), equation
    4.17 (kernel) and section 5.4 (likelihood and its gradient). The amplitude has its closed-form best value; the
    median length grows with the square root of the dimension as in Hvarfner et al., Vanilla Bayesian Optimization
    Performs Great in High Dimensions, ICML 2024, section 4.

    Args:
        points: one row per value, in the unit cube.
        values: what was seen.
        unordered: for each dimension, whether two different values are always equally far apart.

    Examples:
        >>> import numpy as np
        >>> places = np.linspace(0, 1, 9)[:, None]
        >>> process = GaussianProcess(places, (places[:, 0] - 0.4) ** 2, np.array([False]))
        >>> mean, spread = process.predict(np.array([[0.4], [0.9]]))
        >>> bool(mean[0] < mean[1])
        True
    """

    def __init__(self, points: Array, values: Array, unordered: Any) -> None:
        import numpy as np

        self._points, self._unordered = points, unordered
        self._mean, self._scale = float(values.mean()), float(values.std()) or 1.0
        self._values = (values - self._mean) / self._scale
        apart = self._apart(points, points)
        dims = points.shape[1]
        centre = np.append(
            np.full(dims, math.log(_LENGTH_PRIOR[0] * math.sqrt(dims))), math.log(_NOISE_PRIOR[0])
        )
        spread = np.append(np.full(dims, _LENGTH_PRIOR[1]), _NOISE_PRIOR[1])
        self._logs = self._fitted(apart, centre, spread)
        self._factor(apart)
        self._variance = max(float(self._values @ self._weights) / len(values), 1e-12)

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Mean and standard deviation at some points, noise left out."""
        import numpy as np

        near = _kernel(self._apart(points, self._points), self._logs[:-1])[0]
        mean = near @ self._weights
        left = 1 - np.einsum("ij,jk,ik->i", near, self._inverse, near, optimize=True)
        return mean * self._scale + self._mean, np.sqrt(np.maximum(left, 1e-9) * self._variance) * self._scale

    def expect(self, points: Array) -> None:
        """Take in points whose value is still unknown as if what is predicted had been seen there.

        Source: Ginsbourger et al., Kriging is well-suited to parallelize optimization, 2010, section 4 (believer).
        """
        import numpy as np

        believed = (self.predict(points)[0] - self._mean) / self._scale
        self._points = np.vstack([self._points, points])
        self._values = np.append(self._values, believed)
        self._factor(self._apart(self._points, self._points))

    def _apart(self, left: Array, right: Array) -> Array:
        """Squared distances, dimension by dimension."""
        import numpy as np

        apart: Array = (left[:, None, :] - right[None, :, :]) ** 2
        if self._unordered.any():
            apart[:, :, self._unordered] = np.where(apart[:, :, self._unordered] > 0, _UNORDERED, 0.0)
        return apart

    def _factor(self, apart: Array) -> None:
        import numpy as np

        near = _kernel(apart, self._logs[:-1])[0]
        near[np.diag_indices(len(near))] += math.exp(self._logs[-1])
        self._inverse = np.linalg.inv(near)
        self._weights = self._inverse @ self._values

    def _fitted(self, apart: Array, centre: Array, spread: Array) -> Array:
        """Logarithms of the lengths and of the noise: steps along the signs of the gradient, resized as it turns.

        Source: Riedmiller and Braun, A direct adaptive method for faster backpropagation learning, 1993 (Rprop).
        """
        import numpy as np

        logs, step, before = centre.copy(), np.full(len(centre), 0.4), np.zeros(len(centre))
        best, best_loss = logs, math.inf
        for _ in range(_NUM_STEPS):
            loss, gradient = self._loss(apart, logs)
            loss += float((((logs - centre) / spread) ** 2).sum()) / 2
            gradient += (logs - centre) / spread**2
            if loss < best_loss:
                best, best_loss = logs, loss
            step *= np.where(gradient * before > 0, 1.3, np.where(gradient * before < 0, 0.5, 1.0))
            before = gradient
            logs = logs - np.sign(gradient) * step
            logs[-1] = np.clip(logs[-1], *np.log(_NOISE_RANGE))
        return best

    def _loss(self, apart: Array, logs: Array) -> tuple[float, Array]:
        """Negative log likelihood and its gradient."""
        import numpy as np

        near, slope = _kernel(apart, logs[:-1])
        noise = math.exp(logs[-1])
        near[np.diag_indices(len(near))] += noise
        inverse = np.linalg.inv(near)
        weights = inverse @ self._values
        fit = max(float(self._values @ weights), 1e-12)
        count = len(weights)
        pull = inverse - np.outer(weights, weights) * (count / fit)
        lengths = np.tensordot(pull * slope, apart, axes=2) * np.exp(-2 * logs[:-1]) / 2
        loss = (count * math.log(fit / count) + float(np.linalg.slogdet(near)[1])) / 2
        return loss, np.append(lengths, noise * np.trace(pull) / 2)


def _kernel(apart: Array, logs: Array) -> tuple[Array, Array]:
    """The kernel, and what its slope along the logarithm of a length shares between all lengths."""
    import numpy as np

    far = np.sqrt(5 * (apart @ np.exp(-2 * logs)))
    decay = np.exp(-far)
    return (1 + far + far**2 / 3) * decay, (5 / 3) * (1 + far) * decay
