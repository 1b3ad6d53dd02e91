"""What is read: rows in memory, a memory-mapped token file, JPEG files, a Parquet table in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from PIL import Image
from torch.utils.data import Dataset, TensorDataset

from hemostat.data import TokenFile

WINDOW = 256


class Workload(NamedTuple):
    """One kind of data.

    Attributes:
        name: as it stands in the figures.
        micro_batch: samples in a batch.
        item: the data set as people write it, with `__getitem__` only.
        many: the same with `__getitems__`.
        ours: what a user of hemostat returns; the same samples.
    """

    name: str
    micro_batch: int
    item: Dataset[Any]
    many: Dataset[Any]
    ours: Any


class Rows(Dataset[Any]):
    """Tensors in memory, one row at a time."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], self.y[index]


class ManyRows(Rows):
    def __getitems__(self, indices: Sequence[int]) -> Any:
        wanted = torch.tensor(indices)
        return self.x[wanted], self.y[wanted]


class Tokens(Dataset[Any]):
    """The usual memory-mapped token file."""

    def __init__(self, path: Path) -> None:
        self.tokens = np.memmap(path, np.uint16, mode="r")

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // WINDOW

    def __getitem__(self, index: int) -> Any:
        start = index * WINDOW
        row = torch.from_numpy(self.tokens[start : start + WINDOW + 1].astype(np.int64))
        return row[:-1], row[1:]


class ManyTokens(Tokens):
    def __getitems__(self, indices: Sequence[int]) -> Any:
        starts = np.asarray(indices)[:, None] * WINDOW + np.arange(WINDOW + 1)
        rows = torch.from_numpy(self.tokens[starts].astype(np.int64))
        return rows[:, :-1], rows[:, 1:]


class Images(Dataset[Any]):
    """Decode, resize, normalise: the usual image data set."""

    def __init__(self, files: list[Path]) -> None:
        self.files = files

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        with Image.open(self.files[index]) as image:
            pixels = np.asarray(image.convert("RGB").resize((224, 224)))
        normal = (torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255 - 0.45) / 0.225
        return normal, index % 10


class ManyImages(Images):
    def __getitems__(self, indices: Sequence[int]) -> Any:
        parts = [self[index] for index in indices]
        return torch.stack([part[0] for part in parts]), torch.tensor([part[1] for part in parts])


class Table(Dataset[Any]):
    """Rows of a Parquet table that was read into memory."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, index: int) -> Any:
        row = self.table.slice(index, 1).to_pylist()[0]
        label = row.pop("label")
        return torch.tensor(list(row.values())), label


class ManyTable(Table):
    def __getitems__(self, indices: Sequence[int]) -> Any:
        columns = self.table.take(pa.array(indices)).columns
        x = np.stack([column.to_numpy() for column in columns[:-1]], axis=1)
        return torch.from_numpy(x), torch.from_numpy(columns[-1].to_numpy().copy())


def workloads(folder: Path, num_images: int) -> list[Workload]:
    """Make the data under `folder`, the same every time."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((100_000, 64), dtype=np.float32))
    y = torch.from_numpy(rng.integers(0, 10, 100_000))
    tokens = folder / "tokens.bin"
    rng.integers(0, 50_000, 20_000_000, dtype=np.uint16).tofile(tokens)
    files = [folder / f"{number}.jpg" for number in range(num_images)]
    for file in files:
        smooth = rng.integers(0, 255, (28, 32, 3), dtype=np.uint8)
        Image.fromarray(smooth).resize((320, 280)).save(file, quality=90)
    return [
        Workload("memory", 32, Rows(x, y), ManyRows(x, y), TensorDataset(x, y)),
        Workload("tokens", 16, Tokens(tokens), ManyTokens(tokens), TokenFile(tokens, WINDOW)),
        Workload("jpeg", 32, Images(files), ManyImages(files), Images(files)),
        parquet(folder / "rows.parquet"),
    ]


def parquet(file: Path) -> Workload:
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    columns = {f"f{number}": rng.standard_normal(100_000).astype(np.float32) for number in range(16)}
    pq.write_table(pa.table(columns | {"label": rng.integers(0, 10, 100_000)}), file)
    table = pq.read_table(file).combine_chunks()
    return Workload("parquet", 32, Table(table), ManyTable(table), ManyTable(table))
