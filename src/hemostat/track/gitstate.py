"""Asks git for the commit, the branch, and what is not committed, within limits of size and time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

from hemostat.track.masking import mask_text

_PRIVATE = ":(exclude,glob)**/hemostat.toml"  # addresses for messages; no result depends on it
MAX_DIFF_BYTES = 256 * 1024
MAX_UNTRACKED = 200
_TIMEOUT_S = 20.0
# what git calls the tree without files; a repository without commits is compared with it
_EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class _GitSaysNoError(Exception):
    """git is absent, refuses or takes too long; the text is the reason."""


def git_state(cwd: Path) -> dict[str, Any]:
    """Describe the repository around a folder.

    Returns:
        `state` is "clean", "dirty", "no repository", or the reason why git could not be asked. With a
        repository also: commit (None before the first one), branch (None when detached), dirty, root, remote
        (credentials masked), diff (against the commit, at most 256 KiB), diff_truncated, untracked (at most
        200 names), num_untracked.
    """
    try:
        status = _git(cwd, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal")
    except _GitSaysNoError as reason:
        text = str(reason)
        return {"state": "no repository" if "not a git repository" in text else text}
    found = _parse(status.decode(errors="replace"))
    found["state"] = "dirty" if found["dirty"] else "clean"
    try:
        found["root"] = _git(cwd, "rev-parse", "--show-toplevel").decode(errors="replace").strip()
        if found.pop("changed"):
            against = found["commit"] or _EMPTY_TREE
            # --relative=off and the root as folder: the patch must apply from the top
            options = ("--no-ext-diff", "--no-color", "--binary", against, "--", ".", _PRIVATE)
            patch = _git(Path(found["root"]), "diff", *options)
            found["diff"] = patch[:MAX_DIFF_BYTES].decode(errors="replace")
            found["diff_truncated"] = len(patch) > MAX_DIFF_BYTES
    except _GitSaysNoError as reason:
        found["diff_error"] = str(reason)
    try:
        found["remote"] = mask_text(_git(cwd, "remote", "get-url", "origin").decode().strip())
    except (_GitSaysNoError, UnicodeDecodeError):
        found["remote"] = None
    return found


def _parse(status: str) -> dict[str, Any]:
    commit = branch = None
    untracked: list[str] = []
    changed = False
    for entry in status.split("\0"):
        if entry.startswith("# branch.oid "):
            commit = entry.removeprefix("# branch.oid ")
        elif entry.startswith("# branch.head "):
            branch = entry.removeprefix("# branch.head ")
        elif entry.startswith("? "):
            untracked.append(entry[2:])
        elif entry[:2] in ("1 ", "2 ", "u "):
            changed = True
    return {
        "commit": None if commit in (None, "(initial)") else commit,
        "branch": None if branch == "(detached)" else branch,
        "dirty": changed or bool(untracked),
        "changed": changed,
        "untracked": untracked[:MAX_UNTRACKED],
        "num_untracked": len(untracked),
    }


def _git(cwd: Path, *words: str) -> bytes:
    # no optional locks: recording a run must not disturb a git command of the user's
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            ["git", "-c", "core.fsmonitor=false", "-C", str(cwd), *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise _GitSaysNoError("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise _GitSaysNoError(f"git {words[0]} took longer than {_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise _GitSaysNoError(f"git could not be run: {error.strerror}") from None
    if done.returncode:
        first = done.stderr.decode(errors="replace").strip().splitlines()
        raise _GitSaysNoError(first[0] if first else f"git {words[0]} returned {done.returncode}")
    return done.stdout
