"""A data set that `hemostat data prepare` has written: memory-mapped arrays with the recipe of their making."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from hemostat.data.mapped import MappedFile
from hemostat.errors import HemostatError, HemostatWarning, TaskError
from hemostat.track import fingerprint

RECIPE: Final = "prepared.json"
DIGESTS: Final = "source.sqlite"
FORMAT: Final = 1


class PreparedData:
    """Samples as they were when they were written; opened in no time, whatever their size.

    Only the pages that are asked for are read, and threads, worker processes and ranks share them in the page
    cache. Rows of unequal lengths come singly: return a DataLoader with a collate_fn that pads them, or read
    their flat file as a `TokenFile`.

    Args:
        path: the folder.
        check: look whether the files it was made from have changed, where they are still there. Files of unchanged
            size, time and inode are not read again, of large other ones only 64 pieces. One rank of a machine looks.

    Attributes:
        recipe: prepared.json: source and its fingerprint, commit, command, dtypes and shapes.

    Raises:
        TaskError: no such folder, a file of it is missing or cut short, or its source has changed; the changed
            files are named.
    """

    def __init__(self, path: str | Path, check: bool = True) -> None:
        self.path = Path(path)
        try:
            self.recipe: dict[str, Any] = json.loads((self.path / RECIPE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise TaskError(
                f"{path} has no {RECIPE}. Write it with: hemostat data prepare task.py:Task --out {path}"
            ) from None
        except (OSError, ValueError) as error:
            raise TaskError(f"{self.path / RECIPE} cannot be read ({error}). Prepare it again.") from None
        if self.recipe.get("format") != FORMAT:
            raise TaskError(
                f"{path} has format {self.recipe.get('format')}, this version reads {FORMAT}. Prepare it again."
            )
        self._open()
        if check:
            self._check_source()

    def _open(self) -> None:
        self._files: list[MappedFile] = []
        self._arrays = [self._mapped(leaf["file"]) for leaf in self.recipe["leaves"]]
        self._offsets = [
            self._mapped(leaf["offsets"]) if leaf["offsets"] else None for leaf in self.recipe["leaves"]
        ]
        self.is_ragged = any(offsets is not None for offsets in self._offsets)

    def _mapped(self, name: str) -> Any:
        self._files.append(MappedFile(self.path / name, fix="Prepare the folder again."))
        return self._files[-1].array

    def _check_files(self) -> None:
        for file in self._files:
            file.check()

    def _check_source(self) -> None:
        source = self.recipe["source"]
        there = [(name, path) for name, path in source.get("paths", []) if Path(path).exists()]
        if not there or os.environ.get("LOCAL_RANK", "0") != "0":
            return  # without any of them, the copy stands for itself
        try:
            paths = [(name, path) if name else path for name, path in there]
            now = fingerprint(paths, "sample", cache=self.path / DIGESTS)
        except HemostatError as error:
            warnings.warn(
                f"{self.path}: its source cannot be compared: {error}", HemostatWarning, stacklevel=4
            )
            return
        changes = now.changes(source["files"])
        if changes:
            raise TaskError(
                f"{self.path} was made from other data than there are now: {'; '.join(changes)}. Prepare it again, "
                f"or read it as it is: PreparedData({str(self.path)!r}, check=False)."
            )

    def __len__(self) -> int:
        return int(self.recipe["num_samples"])

    def __getitem__(self, index: int) -> Any:
        index = range(len(self))[index]
        self._check_files()
        return self._tree(iter([self._row(leaf, index) for leaf in range(len(self._arrays))]))

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Samples, as torch's own DataLoader wants them."""
        return [self[index] for index in indices]

    def batch(self, indices: Tensor) -> Any:
        """The batch that torch's collation would make of these samples.

        Args:
            indices: int64 of shape (n,).
        """
        wanted = indices.numpy()
        self._check_files()
        return self._tree(
            iter([self._tensor(leaf, array[wanted]) for leaf, array in enumerate(self._arrays)])
        )

    def fingerprint(self) -> list[Path]:
        """What identifies the data: the files of the copy."""
        files = [leaf[kind] for leaf in self.recipe["leaves"] for kind in ("file", "offsets") if leaf[kind]]
        return [self.path / file for file in files]

    def _row(self, leaf: int, index: int) -> Tensor:
        offsets = self._offsets[leaf]
        if offsets is None:
            return self._tensor(leaf, self._arrays[leaf][index].copy())
        return self._tensor(leaf, self._arrays[leaf][offsets[index] : offsets[index + 1]].copy())

    def _tensor(self, leaf: int, values: Any) -> Tensor:
        return torch.from_numpy(np.asarray(values)).view(getattr(torch, self.recipe["leaves"][leaf]["dtype"]))

    def _tree(self, leaves: Iterator[Tensor]) -> Any:
        return planted(self.recipe["tree"], leaves)

    def __getstate__(self) -> dict[str, Any]:
        """Path and recipe only; who unpickles it opens the files."""
        return {"path": self.path, "recipe": self.recipe}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


def planted(tree: Any, leaves: Iterator[Any]) -> Any:
    """A sample out of its leaves.

    Args:
        tree: None for a leaf, a list of trees for a tuple, a dict of trees for a dict.
        leaves: in order.

    Examples:
        >>> planted([None, {"a": None}], iter([1, 2]))
        (1, {'a': 2})
    """
    if tree is None:
        return next(leaves)
    if isinstance(tree, dict):
        return {name: planted(part, leaves) for name, part in tree.items()}
    return tuple([planted(part, leaves) for part in tree])
