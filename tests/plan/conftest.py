"""Decoders whose figures can be followed by hand."""

from __future__ import annotations

import pytest

from hemostat.plan import Profile
from hemostat.plan.families import Decoder, decoder_from_numbers, decoder_profile


@pytest.fixture(scope="session")
def tiny_profile() -> Profile:
    """Four blocks of four heads."""
    return decoder_profile(
        Decoder(
            num_layers=4,
            hidden=64,
            num_heads=4,
            num_kv_heads=4,
            head_width=16,
            ffn=256,
            vocab=1000,
            num_tokens=128,
        )
    )


@pytest.fixture(scope="session")
def story() -> Decoder:
    """The model of the story: 320 million parameters in 24 blocks."""
    return decoder_from_numbers(320e6, 24, 1024)


@pytest.fixture(scope="session")
def story_profile(story) -> Profile:
    """Its profile."""
    return decoder_profile(story)
