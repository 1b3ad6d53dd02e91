"""What identifies a data set changes with every sample, and not with where the samples lie."""

import resource

import numpy as np
import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from hemostat.data import ImageFolder, TokenFile
from hemostat.data.content import PIECE_BYTES, content
from hemostat.track import fingerprint


def digest(dataset):
    return fingerprint(content(dataset)).digest


def test_tensors_tell_every_change():
    data = torch.arange(12.0).reshape(6, 2)
    whole = digest(TensorDataset(data))
    assert digest(TensorDataset(data.clone())) == whole
    assert digest(TensorDataset(data.T.contiguous().T)) == whole
    changed = data.clone()
    changed[3, 1] += 1e-6
    others = [changed, data.reshape(12), data.reshape(2, 6), data.double(), data.bfloat16(), data[:0]]
    found = {digest(TensorDataset(other)) for other in others}
    assert whole not in found and len(found) == len(others)


def test_the_order_of_a_subset_counts():
    data = TensorDataset(torch.arange(12.0))
    assert digest(Subset(data, [0, 1])) != digest(Subset(data, [1, 0]))
    assert digest(Subset(Subset(data, [0, 1]), [0])) != digest(Subset(data, [0]))
    assert content(Subset(object(), [0])) is None


def test_a_changed_sample_is_found_in_its_piece():
    data = torch.zeros(3 * PIECE_BYTES // 4096, 1024)
    before = fingerprint(content(TensorDataset(data)))
    data[5000, 3] = 1
    (line,) = fingerprint(content(TensorDataset(data))).changes(before.files)
    assert line == "shard tensor 0 (float32 12288x1024), samples 4096 to 8191 differs"


def test_memory_does_not_double():
    data = torch.zeros(400 << 20, dtype=torch.uint8).view(-1, 1024)
    data.fill_(1)
    scattered = torch.empty(400 << 10, 2048, dtype=torch.uint8)[:, ::2]  # a view that is not in one piece
    scattered.fill_(1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert digest(TensorDataset(data)) == digest(TensorDataset(scattered))
    grown_bytes = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown_bytes < data.numel() / 2


def rows():
    return [
        ({"x": torch.tensor([float(i)]), "name": str(i)}, np.int64(i), None, b"ab", 1.5) for i in range(600)
    ]


@pytest.mark.parametrize("place", [0, 300, 599])
def test_lists_of_samples_tell_every_change(place):
    before, changed = fingerprint(content(rows())), rows()
    assert fingerprint(content(rows())) == before
    changed[place][0]["x"] += 1
    found = fingerprint(content(changed)).changes(before.files)
    assert found == [
        f"shard samples {256 * (place // 256)} to {min(256 * (place // 256) + 255, 599)} differs"
    ]


def test_neighbours_in_a_sample_are_told_apart():
    assert digest([("ab", "c")]) != digest([("a", "bc")])
    assert digest([([1], 2)]) != digest([([1, 2],)])
    assert content([object()]) is None and content([np.array([object()])]) is None


def test_nothing_is_read_before_it_is_asked_for():
    table = fingerprint(content(rows()), "stat")
    assert table.num_files == 3 and table.num_bytes == 0


def test_files_are_named_by_the_data_set(tmp_path):
    np.arange(100, dtype=np.uint16).tofile(tmp_path / "train.bin")
    tokens = TokenFile(tmp_path / "train.bin", window=4)
    assert set(fingerprint(content(tokens)).files) == {"train.bin"}
    pytest.importorskip("PIL.Image").new("RGB", (4, 4)).save(_made(tmp_path / "images" / "cat") / "1.png")
    images = ImageFolder(tmp_path / "images", (4, 4))
    assert set(fingerprint(content(Subset(images, [0]))).files) == {"indices (int64 1)", "cat/1.png"}


def _made(folder):
    folder.mkdir(parents=True)
    return folder


def test_hugging_face_tables_are_known_by_content():
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_dict({"x": [[float(i)] for i in range(50)], "y": list(range(50))})
    again = datasets.Dataset.from_dict({"x": [[float(i)] for i in range(50)], "y": list(range(50))})
    assert digest(table) == digest(again)
    others = [
        table.select(range(5)),
        table.select(range(5, 10)),
        table.select([3, 1]),
        table.shuffle(seed=0),
        table.map(lambda row: {"y": row["y"] + 1}),
        table.remove_columns("y"),
    ]
    assert len({digest(other) for other in (table, *others)}) == 7
