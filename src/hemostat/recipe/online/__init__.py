"""What is judged while a run goes on, one number at a time: spikes, divergence, overfitting, gradient noise."""

from __future__ import annotations

from hemostat.recipe.online.divergence import Diverged, Divergence
from hemostat.recipe.online.noise import NoiseScale
from hemostat.recipe.online.overfitting import Onset, Overfitting
from hemostat.recipe.online.spikes import Spike, Spikes

__all__ = ["Diverged", "Divergence", "NoiseScale", "Onset", "Overfitting", "Spike", "Spikes"]
