"""Tensors of a checkpoint on disk, through torch.distributed.checkpoint; reading never unpickles what is foreign.

Import it inside functions: that part of torch brings sympy and takes a quarter of the start of a rank.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from hemostat.disk import refusal, refused
from hemostat.errors import RecordError
from hemostat.train.checkpoint import Shape

METADATA = ".metadata"
# torch's index of a checkpoint is a pickle; these are all the names that one of plain tensors needs
_DCP = "torch.distributed.checkpoint.metadata"
_ALLOWED = {
    (_DCP, "Metadata"),
    (_DCP, "MetadataIndex"),
    (_DCP, "TensorStorageMetadata"),
    (_DCP, "TensorProperties"),
    (_DCP, "ChunkStorageMetadata"),
    (_DCP, "StorageMeta"),
    (_DCP, "_MEM_FORMAT_ENCODING"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    ("pathlib", "Path"),
    ("pathlib", "PosixPath"),
    ("pathlib._local", "PosixPath"),
}
warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable or uninitialized")


def write_tensors(tensors: Mapping[str, torch.Tensor], folder: Path, group: dist.ProcessGroup | None) -> None:
    """Write this rank's part of all tensors into files of its own; what several ranks hold is written once.

    Args:
        tensors: by name; the same names on all ranks, but for those that only one rank has.
        folder: an empty one.
        group: of all ranks; None for a single one. A failure on one rank is raised on all.

    Raises:
        RecordError: the disk refused, on whichever rank.
    """
    writer = FileSystemWriter(folder, single_file_per_rank=True, sync_files=True, thread_count=1)
    try:
        save(dict(tensors), storage_writer=writer, process_group=group, no_dist=group is None)
    except CheckpointException as error:
        rank, (cause, _) = next(iter(error.failures.items()))
        raise RecordError(
            f"rank {rank} could not write to {folder}: {_why(cause, tensors, folder)}"
        ) from None
    except (OSError, RuntimeError) as error:
        raise RecordError(f"cannot write to {folder}: {_why(error, tensors, folder)}") from None


def _why(error: BaseException, tensors: Mapping[str, torch.Tensor], folder: Path) -> str:
    """The system's word, which torch's writer of archives replaces by one of its own."""
    if isinstance(error, OSError):
        return refused(error)
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    return refusal(folder, size) or _first_line(error)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def files_of_rank(folder: Path, rank: int) -> list[str]:
    """Names of the files that `write_tensors` left for a rank; rank 0 has the index too."""
    names = [path.name for path in folder.glob(f"__{rank}_*.distcp")]
    return [*names, METADATA] if rank == 0 else names


def tensor_shapes(folder: Path) -> dict[str, Shape]:
    """Names and shapes of all tensors in a checkpoint.

    Raises:
        RecordError: the index is absent, torn, or holds more than tensors.
    """
    return {
        name: Shape(torch.Size(entry.size), entry.properties.dtype)
        for name, entry in _metadata(folder).state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    }


def read_tensors(into: dict[str, torch.Tensor], folder: Path) -> None:
    """Fill tensors in place, each rank for itself; sharded ones take their part.

    Args:
        into: by name, of the right shapes.
        folder: a whole checkpoint.

    Raises:
        RecordError: a file is torn, or a name is not there.
    """
    if not into:
        return
    try:
        load(into, storage_reader=_Reader(folder), no_dist=True)
    except CheckpointException as error:
        _, (cause, _) = next(iter(error.failures.items()))
        if isinstance(cause, RecordError):
            raise cause from None
        raise RecordError(f"{folder} cannot be read: {_first_line(cause)}") from None
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise RecordError(f"{folder} cannot be read: {_first_line(error)}") from None


class _Reader(FileSystemReader):
    """Torch's reader with an index that is not trusted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._folder = folder

    def read_metadata(self, *_: Any, **__: Any) -> Metadata:
        metadata = _metadata(self._folder)
        metadata.storage_meta = metadata.storage_meta or StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


class _Unpickler(pickle.Unpickler):
    """Builds sizes, dtypes and places of tensors, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED or (
            module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        ):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"names {module}.{name}")


def _metadata(folder: Path) -> Metadata:
    path = folder / METADATA
    try:
        with path.open("rb") as file:
            metadata = _Unpickler(file).load()
    except FileNotFoundError:
        raise RecordError(f"{folder} has no {METADATA}: it is no whole checkpoint.") from None
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror or error}.") from None
    except pickle.UnpicklingError as error:
        raise RecordError(
            f"{path} is no index of tensors: it {error}. It was not made by hemostat; it is not opened."
        ) from None
    except (EOFError, AttributeError, TypeError, ValueError, IndexError, KeyError) as error:
        raise RecordError(f"{path} is torn: {error}.") from None
    if not isinstance(metadata, Metadata):
        raise RecordError(f"{path} is no index of tensors.")
    return metadata
