"""Checkpoint folders: whole or invisible, damage named, the best kept, newer formats refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hemostat.errors import RecordError
from hemostat.track import Checkpoints
from hemostat.track.checkpoints import MANIFEST


def write(checkpoints: Checkpoints, step: int, content: bytes = b"weights") -> Path:
    half = checkpoints.begin(step)
    (half / "tensors").write_bytes(content)
    (half / "state.json").write_text(json.dumps({"step": step}))
    files = checkpoints.describe(half, ["tensors", "state.json"])
    return checkpoints.publish(half, step=step, samples=32 * step, num_ranks=2, files=files)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path)


def test_a_published_checkpoint_is_whole_and_says_what_it_is(checkpoints: Checkpoints) -> None:
    path = write(checkpoints, 12)
    assert checkpoints.last_whole() == (path, [])
    manifest = checkpoints.manifest(path)
    assert (manifest.step, manifest.samples, manifest.num_ranks) == (12, 384, 2)


def test_a_half_written_one_is_not_seen_and_the_one_before_is_taken(checkpoints: Checkpoints) -> None:
    """T079."""
    first = write(checkpoints, 1)
    (checkpoints.begin(2) / "tensors").write_bytes(b"half")
    assert checkpoints.last_whole() == (first, [])


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda path: path.write_bytes(b"wei"), "tensors has 3 bytes instead of 7"),
        (lambda path: path.write_bytes(b"weighty"), "tensors is damaged: its digest differs"),
        (lambda path: path.unlink(), "tensors is missing"),
    ],
)
def test_damage_is_named_and_the_older_one_is_taken(checkpoints: Checkpoints, damage, named) -> None:
    first, second = write(checkpoints, 1), write(checkpoints, 2)
    damage(second / "tensors")
    assert checkpoints.last_whole() == (first, [f"step-000000002: {named}"])


def test_a_newer_format_is_refused_with_its_version(checkpoints: Checkpoints) -> None:
    path = write(checkpoints, 3)
    manifest = json.loads((path / MANIFEST).read_text()) | {"format": 99, "hemostat": "9.9"}
    (path / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(RecordError, match=r"format 99.*made with hemostat 9\.9"):
        checkpoints.manifest(path)
    assert checkpoints.last_whole()[0] is None


def test_a_garbled_manifest_is_no_checkpoint(checkpoints: Checkpoints) -> None:
    path = write(checkpoints, 3)
    (path / MANIFEST).write_text("{")
    found, troubles = checkpoints.last_whole()
    assert found is None
    assert "manifest.json" in troubles[0]


def test_rotation_keeps_the_newest_and_the_best(checkpoints: Checkpoints) -> None:
    """T086."""
    paths = [write(checkpoints, step) for step in range(1, 6)]
    checkpoints.mark_best(paths[1])
    checkpoints.begin(9)
    checkpoints.rotate(keep=2)
    assert checkpoints.published() == [paths[1], paths[3], paths[4]]
    assert checkpoints.best() == paths[1]
    assert not checkpoints.temporary(9).exists()


def test_nothing_is_rotated_away_while_the_newest_is_damaged(checkpoints: Checkpoints) -> None:
    """T087."""
    paths = [write(checkpoints, step) for step in range(1, 5)]
    (paths[-1] / "tensors").write_bytes(b"")
    checkpoints.rotate(keep=1)
    assert checkpoints.published() == paths


def test_the_best_is_none_before_there_is_one_and_after_it_is_gone(checkpoints: Checkpoints) -> None:
    """T051."""
    assert checkpoints.best() is None
    checkpoints.mark_best(write(checkpoints, 1).with_name("step-000000007"))
    assert checkpoints.best() is None


@pytest.mark.parametrize("text", ["{", "[]", '{"checkpoint": 3}'])
def test_a_garbled_pointer_to_the_best_is_named_and_stops_the_rotation(
    checkpoints: Checkpoints, text
) -> None:
    paths = [write(checkpoints, step) for step in (1, 2, 3)]
    (checkpoints.root / "best.json").write_text(text)
    with pytest.raises(RecordError, match=r"best\.json is garbled"):
        checkpoints.best()
    checkpoints.rotate(1)
    assert checkpoints.published() == paths


def test_saving_a_step_again_replaces_it(checkpoints: Checkpoints) -> None:
    write(checkpoints, 4)
    path = write(checkpoints, 4, b"newer weights")
    assert (path / "tensors").read_bytes() == b"newer weights"
    assert checkpoints.last_whole() == (path, [])


def test_a_full_or_forbidden_disk_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    with pytest.raises(RecordError, match="cannot be written"):
        Checkpoints(tmp_path).begin(1)
