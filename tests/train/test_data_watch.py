"""Hashing beside a run: how far it came is recorded, it ends when it is told to, and names what has changed."""

import os
import threading
import time

import pytest

from hemostat.track import create_run, load_run, update_run
from hemostat.train.data_watch import CACHE, DataWatch


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(4):
        path = folder / f"train-{number:04}.bin"
        path.write_bytes(os.urandom(1000))
        os.utime(path, (1e9, 1e9))
    return folder


def watched(tmp_path, name, parts, grace_s=20.0):
    root = tmp_path / "runs"
    path = create_run(root, name, {"task": {"spec": "digits.py:Digits"}})
    watch = DataWatch(parts, {"tier": "declared", "num_samples": 4})
    update_run(path, data=watch.known)
    watch.start(path)
    watch.close(grace_s)
    return load_run(root, name)


def test_every_level_is_reached_and_recorded(shards, tmp_path):
    run = watched(tmp_path, "one", [shards])
    data = run.header["data"]
    assert data["tier"] == "full" and data["digest"] == data["digests"]["full"]
    assert set(data["digests"]) == {"stat", "full"} and data["comparable"] == "equal tiers only"
    assert data["num_samples"] == 4 and data["num_files"] == 4 and "files" not in data
    assert set(run.fingerprint("full").files) == {f"train-{number:04}.bin" for number in range(4)}
    assert (run.path.parent / CACHE).exists()


def test_large_data_are_sampled_first(tmp_path):
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(300 << 20)
    data = watched(tmp_path, "one", [path], grace_s=60).header["data"]
    assert set(data["digests"]) == {"stat", "sample", "full"}


def test_it_ends_at_once_when_the_run_does(tmp_path):
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # an hour of reading
    began = time.perf_counter()
    data = watched(tmp_path, "one", [path], grace_s=0.5).header["data"]
    assert time.perf_counter() - began < 5
    assert data["tier"] == "sample" and data["digest"] == data["digests"]["sample"]
    assert "hemostat-data" not in [thread.name for thread in threading.enumerate()]


def test_the_next_run_names_the_shard_that_changed(shards, tmp_path):
    assert "changes" not in watched(tmp_path, "one", [shards]).header["data"]
    target = shards / "train-0003.bin"
    os.utime(target)
    assert "changes" not in watched(tmp_path, "two", [shards]).header["data"]
    target.write_bytes(os.urandom(1000))
    changes = watched(tmp_path, "three", [shards]).header["data"]["changes"]
    assert changes["what"] == ["shard train-0003.bin differs"] and changes["tier"] == "full"
    assert changes["since"] in ("one", "two")


def test_data_that_cannot_be_read_are_a_note_and_no_failure(tmp_path):
    data = watched(tmp_path, "one", [tmp_path / "gone.bin"]).header["data"]
    assert data["tier"] == "declared" and "gone.bin" in data["note"] and "no such file" in data["note"]


def test_what_a_part_of_the_user_raises_is_recorded_with_its_line(shards, tmp_path, capfd):
    def part():
        raise RuntimeError("no decoder")

    data = watched(tmp_path, "one", [("rows", part)]).header["data"]
    assert "test_data_watch.py:" in data["note"] and data["note"].endswith("RuntimeError: no decoder")
    assert "Traceback" not in capfd.readouterr().err


def test_a_run_folder_that_is_gone_is_no_failure(shards, tmp_path):
    watch = DataWatch([shards], {"tier": "declared"})
    watch.start(tmp_path / "nowhere" / "run")
    watch.close()
    watch.close()
