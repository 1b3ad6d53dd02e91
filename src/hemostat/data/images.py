"""A folder of images as a data set of uint8 tensors; one folder per class."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import Tensor

from hemostat.data.checks import is_whole
from hemostat.errors import FieldError, MissingExtraError, TaskError

SUFFIXES: Final = (".jpg", ".jpeg", ".png", ".webp", ".bmp")


class ImageFolder:
    """Images under `path/CLASS/`, decoded by Pillow and resized to one size.

    A sample is (uint8 of shape (3, height, width), number of its class). Normalise on the device: bytes travel
    four times as fast as floats. JPEG files are decoded at the smallest scale that still covers the size.

    Args:
        path: the folder.
        size: (height, width) in pixels.

    Attributes:
        classes: names of the folders, in the order of their numbers.
        files: path of each sample.

    Raises:
        TaskError: no such folder, or no image in it; from an item: the file that cannot be decoded. A JPEG whose
            middle was overwritten decodes to a wrong image without an error: JPEG has no checksum.
        FieldError: a size that is no pair of counts.
        MissingExtraError: Pillow is not installed.
    """

    def __init__(self, path: str | Path, size: tuple[int, int]) -> None:
        try:
            import PIL.Image  # noqa: F401 - asked here, so that it is said before the first sample
        except ModuleNotFoundError:
            raise MissingExtraError("Pillow", extra="images", purpose="decoding images") from None
        root = Path(path)
        if not root.is_dir():
            what = "is a file: give the folder of the classes" if root.exists() else "no such folder"
            raise TaskError(f"{root}: {what}. Check the path of the images.")
        pair = isinstance(size, tuple | list) and len(size) == 2
        if not pair or not all(is_whole(pixels) and pixels >= 1 for pixels in size):
            raise FieldError(
                "size", size, "must be (height, width) in pixels", "Write it like size=(224, 224)."
            )
        self.path = root
        self.size = size
        self.classes = sorted(folder.name for folder in root.iterdir() if folder.is_dir())
        self.files: list[Path] = []
        self._labels: list[int] = []
        for label, name in enumerate(self.classes):
            found = sorted(file for file in (root / name).rglob("*") if file.suffix.lower() in SUFFIXES)
            self.files += found
            self._labels += [label] * len(found)
        if not self.files:
            raise TaskError(
                f"{root} holds no image in a folder of a class. Put them like {root}/CLASS/FILE, "
                f"as {', '.join(SUFFIXES)}."
            )

    def fingerprint(self) -> Path:
        """What identifies the data: all files of the folder."""
        return self.path

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        file = self.files[index]
        height, width = self.size
        try:
            with Image.open(file) as image:
                image.draft("RGB", (width, height))
                pixels = np.asarray(image.convert("RGB").resize((width, height)))
        # what Pillow raises for bytes that are no image, or for one that would fill the memory
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise TaskError(f"{file} cannot be decoded ({error}). Mend or remove that file.") from error
        return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), self._labels[index]
