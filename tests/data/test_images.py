"""Images: decoded on demand, one size, and a corrupted one named by its file."""

import numpy as np
import pytest
import torch
from PIL import Image

from hemostat.data import EvalLoader, ImageFolder, Source, Workers
from hemostat.errors import FieldError, TaskError


@pytest.fixture
def folder(tmp_path):
    for label, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        for number in range(3):
            pixels = np.full((40, 60, 3), 100 * label + 10 * number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{number}.{'png' if number else 'jpg'}")
    (tmp_path / "dog" / "notes.txt").write_text("no image")
    return tmp_path


@pytest.mark.parametrize("workers", [Workers(mode="threads", num=2), Workers(mode="processes", num=2)])
def test_a_folder_becomes_batches_of_bytes(folder, workers):
    data = ImageFolder(folder, size=(20, 30))
    assert data.classes == ["cat", "dog"]
    (batch,) = EvalLoader(data, micro_batch=8, workers=workers)
    pixels, labels = batch.data
    assert (pixels.dtype, pixels.shape) == (torch.uint8, (6, 3, 20, 30))
    assert labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert pixels[:, 0, 0, 0].tolist() == pytest.approx([0, 10, 20, 100, 110, 120], abs=2)


def test_a_grey_image_has_three_channels_too(folder):
    Image.fromarray(np.full((8, 8), 77, np.uint8)).save(folder / "cat" / "0.jpg")
    assert ImageFolder(folder, (4, 4))[0][0][:, 0, 0].tolist() == pytest.approx([77] * 3, abs=2)


@pytest.mark.parametrize("content", [b"", b"no image", None])
def test_a_corrupted_file_is_named(folder, content):
    file = folder / "dog" / "1.png"
    file.write_bytes(file.read_bytes()[:60] if content is None else content)
    with pytest.raises(TaskError, match=r"dog.1\.png cannot be decoded .* Mend or remove that file"):
        Source(ImageFolder(folder, (4, 4))).fetch(torch.tensor([0, 4]))


def test_what_is_no_folder_of_images(tmp_path):
    with pytest.raises(TaskError, match="no such folder"):
        ImageFolder(tmp_path / "absent", (4, 4))
    (tmp_path / "cat.png").write_bytes(b"")
    with pytest.raises(TaskError, match="is a file: give the folder of the classes"):
        ImageFolder(tmp_path / "cat.png", (4, 4))
    (tmp_path / "cat").mkdir()
    with pytest.raises(TaskError, match="holds no image in a folder of a class"):
        ImageFolder(tmp_path, (4, 4))


@pytest.mark.parametrize("size", [32, (0, 0), "x", "ab", (4, 4, 3), (4.5, 4), None])
def test_a_size_is_two_counts(folder, size):
    with pytest.raises(FieldError, match=r"size=.*: must be \(height, width\) in pixels"):
        ImageFolder(folder, size)


def test_an_image_that_would_fill_the_memory_is_named(folder, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(TaskError, match=r"1\.png cannot be decoded \(Image size .* Mend or remove that file"):
        ImageFolder(folder, (4, 4))[1]
