"""Checkpoint folders: whole or invisible, damage named, the best kept, newer formats refused."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from importlib.metadata import version
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


def make_newer(path: Path) -> None:
    manifest = json.loads((path / MANIFEST).read_text()) | {"format": 99, "hemostat": "9.9"}
    (path / MANIFEST).write_text(json.dumps(manifest))


def test_a_newer_format_is_refused_with_both_versions(checkpoints: Checkpoints) -> None:
    older, newer = write(checkpoints, 2), write(checkpoints, 3)
    make_newer(newer)
    mine = re.escape(version("hemostat"))
    said = rf"format 99, made with hemostat 9\.9; this is hemostat {mine}.*Update it, or move"
    with pytest.raises(RecordError, match=said):
        checkpoints.manifest(newer)
    with pytest.raises(RecordError, match=said):
        checkpoints.last_whole()
    newest = write(checkpoints, 4)
    assert checkpoints.last_whole() == (newest, [])
    checkpoints.rotate(keep=2)
    assert checkpoints.published() == [older, newer, newest]  # it is no whole one to this version


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


def test_damaged_ones_do_not_count_among_those_that_are_kept(checkpoints: Checkpoints) -> None:
    paths = [write(checkpoints, step) for step in range(1, 5)]
    (paths[2] / "tensors").write_bytes(b"")
    checkpoints.rotate(keep=2)
    assert checkpoints.published() == paths[1:]
    again = [write(checkpoints, step) for step in (5, 6)]
    checkpoints.rotate(keep=2)
    assert checkpoints.published() == again


def test_damage_after_the_first_look_is_seen(checkpoints: Checkpoints) -> None:
    paths = [write(checkpoints, step) for step in (1, 2)]
    checkpoints.rotate(keep=2)
    (paths[1] / "tensors").write_bytes(b"weighty")
    newest = write(checkpoints, 3)
    checkpoints.rotate(keep=2)
    assert checkpoints.published() == [*paths, newest]


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


def killed_at(number: int, work) -> bool:
    """Do the work in a child that dies at its n-th change of the disk; whether it came to its end before."""
    child = os.fork()
    if child == 0:
        left = [number]

        def count(event: str, _: tuple) -> None:
            if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree", "open"):
                left[0] -= 1
                if left[0] < 0:
                    os._exit(9)

        sys.addaudithook(count)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_kill_at_any_moment_of_saving_a_step_again_leaves_one_whole(tmp_path: Path) -> None:
    ends: list[bytes] = []
    for number in range(100):
        checkpoints = Checkpoints(tmp_path / str(number))
        checkpoints.mark_best(write(checkpoints, 4, b"older weights"))
        done = killed_at(number, partial(write, checkpoints, 4, b"newer weights"))
        path, troubles = checkpoints.last_whole()
        assert path is not None and path.name == "step-000000004" and troubles == [], number
        assert checkpoints.published() == [path] and checkpoints.best() == path
        ends.append((path / "tensors").read_bytes())
        checkpoints.rotate(keep=1)
        assert checkpoints.last_whole()[0] == path
        write(checkpoints, 4, b"newest weights")
        assert (checkpoints.path(4) / "tensors").read_bytes() == b"newest weights"
        assert sorted(entry.name for entry in checkpoints.root.iterdir()) == ["best.json", "step-000000004"]
        if done:
            break
    assert done and number > 10
    assert ends == sorted(ends, reverse=True) and set(ends) == {b"newer weights", b"older weights"}


def test_a_full_or_forbidden_disk_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    with pytest.raises(RecordError, match="cannot be written"):
        Checkpoints(tmp_path).begin(1)
