"""Where a run comes from: commit and uncommitted changes, command, masked environment, packages, machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import sys
from pathlib import Path
from typing import Any

from hemostat.track.gitstate import git_state
from hemostat.track.masking import mask_command, mask_environment, mask_text


def collect_provenance(origin: Path | None = None) -> dict[str, Any]:
    """Collect what is needed to say, and later to restore, where a run comes from.

    Secrets are masked: variables and flags named like *TOKEN*, *KEY*, *SECRET*, *PASS*..., credentials inside
    URLs, tokens of known forms. The diff is kept as it is, since a masked patch does not apply.

    Args:
        origin: folder whose repository is asked, that of the task file; the current one by default.

    Returns:
        A dict of plain values: git, command, cwd, environment, packages, python, executable, platform,
        hostname, num_cpus, memory_bytes. Outside a repository git is `{"state": "no repository"}`.

    Examples:
        >>> sorted(collect_provenance())[:4]
        ['command', 'cwd', 'environment', 'executable']
    """
    return {
        "git": git_state(Path(origin) if origin is not None else Path.cwd()),
        "command": mask_command(_command(), os.environ),
        "cwd": str(Path.cwd()),
        "environment": mask_environment(os.environ),
        "packages": package_versions(),
        "python": sys.version.split()[0],
        "executable": sys.executable,
        "platform": platform.platform(),
        "hostname": socket.gethostname(),
        "num_cpus": usable_cpus(),
        "memory_bytes": memory_bytes(),
    }


def _command() -> list[str]:
    # orig_argv keeps `-m module`, which sys.argv replaces by a path
    return list(sys.orig_argv) or list(sys.argv)


def package_versions() -> dict[str, str]:
    """List installed distributions and their versions; of two copies, the one that is imported."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        try:
            name, version = distribution.metadata["Name"], distribution.version
        except (KeyError, OSError):  # a half-removed package
            continue
        if name:
            found.setdefault(name, mask_text(version or "unknown"))
    return dict(sorted(found.items(), key=lambda pair: pair[0].lower()))


def usable_cpus() -> int:
    """Count the CPUs that this process may use (fewer than the machine has in many containers)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Read the machine's memory in bytes; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None
