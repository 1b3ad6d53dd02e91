"""What git says, tried on real repositories in every state that users have them in."""

from __future__ import annotations

import os
import subprocess

import pytest

from hemostat.track import gitstate
from hemostat.track.gitstate import git_state


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    git(folder, "config", "user.email", "a@example.org")
    git(folder, "config", "user.name", "a")
    (folder / "train.py").write_text("lr = 0.1\n")
    return folder


def git(folder, *words):
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


def test_clean(repository):
    head = commit(repository)
    found = git_state(repository)
    assert (found["state"], found["commit"], found["branch"], found["dirty"]) == (
        "clean",
        head,
        "main",
        False,
    )
    assert "diff" not in found
    assert found["remote"] is None


def test_addresses_for_messages_stay_out_of_the_diff(repository):
    for folder in (repository, repository / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / "hemostat.toml").write_text("")
    commit(repository)
    for folder in (repository, repository / "sub"):
        (folder / "hemostat.toml").write_text('[notify]\nurls = ["slack://hunter2"]\n')
    (repository / "train.py").write_text("lr = 0.2\n")
    found = git_state(repository)
    assert found["dirty"] and "lr = 0.2" in found["diff"] and "hunter2" not in found["diff"]


def test_the_recorded_diff_restores_the_tree(repository, tmp_path):
    commit(repository)
    (repository / "sub").mkdir()
    (repository / "train.py").write_text("lr = 0.2\nname = 'ü'\n")
    (repository / "new file.py").write_text("x\n")
    git(repository, "add", "train.py")
    found = git_state(repository / "sub")
    assert (found["state"], found["untracked"], found["diff_truncated"]) == ("dirty", ["new file.py"], False)
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(repository), str(copy))
    (tmp_path / "p.diff").write_text(found["diff"])
    git(copy, "apply", str(tmp_path / "p.diff"))
    assert (copy / "train.py").read_text() == "lr = 0.2\nname = 'ü'\n"


def test_untracked_only_is_dirty_without_a_diff(repository):
    commit(repository)
    (repository / "notes.txt").write_text("x")
    found = git_state(repository)
    assert (found["dirty"], found["untracked"], "diff" in found) == (True, ["notes.txt"], False)


def test_before_the_first_commit(repository):
    git(repository, "add", "train.py")
    found = git_state(repository)
    assert (found["commit"], found["dirty"]) == (None, True)
    assert "+lr = 0.1" in found["diff"]


def test_detached_head(repository):
    commit(repository)
    git(repository, "checkout", "-q", "--detach")
    assert git_state(repository)["branch"] is None


def test_a_large_diff_is_cut(repository):
    commit(repository)
    (repository / "train.py").write_text("x = 1\n" * 100_000)
    found = git_state(repository)
    assert found["diff_truncated"]
    assert len(found["diff"]) <= gitstate.MAX_DIFF_BYTES


def test_many_untracked_files_are_counted(repository):
    commit(repository)
    for index in range(gitstate.MAX_UNTRACKED + 50):
        (repository / f"{index}.txt").write_text("")
    found = git_state(repository)
    assert (len(found["untracked"]), found["num_untracked"]) == (
        gitstate.MAX_UNTRACKED,
        gitstate.MAX_UNTRACKED + 50,
    )


def test_credentials_of_the_remote_are_masked(repository):
    commit(repository)
    git(repository, "remote", "add", "origin", "https://me:hunter2hunter2@example.org/x.git")
    assert git_state(repository)["remote"] == "https://***@example.org/x.git"


def test_the_index_is_left_alone(repository):
    commit(repository)
    index = repository / ".git" / "index"
    (repository / "train.py").write_text(
        "lr = 0.1\n"
    )  # same content, new time: a plain `git status` rewrites
    before = index.read_bytes(), index.stat().st_mtime_ns
    git_state(repository)
    assert (index.read_bytes(), index.stat().st_mtime_ns) == before


def test_outside_a_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) == {"state": "no repository"}


def test_without_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) == {"state": "git is not installed"}


def test_a_git_that_hangs_is_given_up(tmp_path, monkeypatch):
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(gitstate, "_TIMEOUT_S", 0.3)
    assert "took longer" in git_state(tmp_path)["state"]


def test_a_broken_repository_says_so(repository):
    commit(repository)
    (repository / ".git" / "index").write_bytes(b"garbage")
    assert "index" in git_state(repository)["state"]
