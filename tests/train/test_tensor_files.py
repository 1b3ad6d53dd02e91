"""Tensor files: torn ones and foreign ones are errors with a name, and nothing foreign is run."""

import pickle

import pytest
import torch
from torch.distributed.checkpoint.metadata import BytesStorageMetadata, Metadata

from hemostat.errors import RecordError
from hemostat.train.tensor_files import METADATA, files_of_rank, read_tensors, tensor_shapes, write_tensors


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "tensors"
    path.mkdir()
    write_tensors({"a/b": torch.arange(6.0).reshape(2, 3), "step": torch.tensor(4)}, path, None)
    return path


def test_shapes_and_values_come_back(folder):
    assert tensor_shapes(folder) == {"a/b": ((2, 3), torch.float32), "step": ((), torch.int64)}
    into = {"a/b": torch.zeros(2, 3)}
    read_tensors(into, folder)
    assert torch.equal(into["a/b"], torch.arange(6.0).reshape(2, 3))
    assert sorted(files_of_rank(folder, 0)) == [METADATA, "__0_0.distcp"]
    assert files_of_rank(folder, 1) == []


def test_a_name_that_is_not_there_is_an_error(folder):
    with pytest.raises(RecordError, match=r"cannot be read: .*c"):
        read_tensors({"c": torch.zeros(1)}, folder)


def test_a_torn_index_and_no_index_are_errors(folder):
    whole = (folder / METADATA).read_bytes()
    for size in (0, 5, len(whole) // 2):
        (folder / METADATA).write_bytes(whole[:size])
        with pytest.raises(RecordError, match=r"\.metadata"):
            tensor_shapes(folder)
    (folder / METADATA).unlink()
    with pytest.raises(RecordError, match="no whole checkpoint"):
        tensor_shapes(folder)


def test_a_torn_file_is_an_error(folder):
    path = folder / "__0_0.distcp"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(RecordError, match="cannot be read"):
        read_tensors({"a/b": torch.zeros(2, 3)}, folder)


class Evil:
    def __reduce__(self):
        return (print, ("run",))


def test_foreign_pickles_are_not_run(folder, capsys):
    hidden = Metadata(state_dict_metadata={"a/b": Evil()})
    for content in (Evil(), {"a": Evil()}, hidden, Metadata({"a/b": BytesStorageMetadata()})):
        (folder / METADATA).write_bytes(pickle.dumps(content))
        with pytest.raises(RecordError, match=r"names .*It was not made by hemostat"):
            read_tensors({"a/b": torch.zeros(2, 3)}, folder)
    (folder / METADATA).write_bytes(pickle.dumps([1]))
    with pytest.raises(RecordError, match="no index of tensors"):
        tensor_shapes(folder)
    assert "run" not in capsys.readouterr().out
