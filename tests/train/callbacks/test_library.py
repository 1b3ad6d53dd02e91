"""A library that is absent, or of another version, is named in one line."""

import pytest
import torch

import hemostat.train.callbacks
from hemostat.errors import FieldError, MissingExtraError
from hemostat.train.callbacks.library import ACCELERATE, HUGGING_FACE, LIGHTNING, Library, check_version, load

TORCH = Library("torch", "train", (2, 0), 3)


def test_an_absent_library_comes_with_its_pip_line():
    absent = Library("transformers_of_nobody", "hf", (1, 0), 2)
    with pytest.raises(MissingExtraError, match=r"pip install 'hemostat\[hf\]'"):
        load(absent)


def test_a_version_that_is_not_supported_is_named_with_those_that_are(monkeypatch):
    assert load(TORCH, "nn") is torch.nn
    monkeypatch.setattr(torch, "__version__", "1.13.1")
    with pytest.raises(FieldError, match=r"torch='1\.13\.1': the callback works with >=2\.0,<3\. Install"):
        load(TORCH)


@pytest.mark.parametrize(
    ("library", "good", "bad"),
    [
        (HUGGING_FACE, ["4.48.0", "4.57.1", "5.24.0", "5.0.0rc1"], ["4.47.1", "6.0.0", "3"]),
        (LIGHTNING, ["2.5", "2.6.6"], ["2.4.9", "1.9.5", "3.0"]),
        (ACCELERATE, ["1.0.0", "1.15.0"], ["0.34.2", "2.0.0"]),
    ],
)
def test_the_bounds(library, good, bad):
    for version in good:
        check_version(library, version)
    for version in bad:
        with pytest.raises(FieldError, match=f"hemostat\\[{library.extra}\\]"):
            check_version(library, version)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AttributeError, match="AccelerateRun, HuggingFaceCallback, LightningCallback"):
        hemostat.train.callbacks.Keras  # noqa: B018
    assert dir(hemostat.train.callbacks) == sorted(hemostat.train.callbacks.__all__)
