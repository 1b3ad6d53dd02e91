"""Takes secrets out of environments, command lines and URLs before anything is recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MASK = "***"
_NAME = re.compile(
    r"TOKEN|KEY|SECRET|PASS|PWD|CRED|AUTH|COOKIE|SESSION|PRIVATE|SIGNATURE|WEBHOOK|DSN|CONNECTION|BEARER|JWT|NOTIFY"
    r"|(^|[_-])(PAT|SAS|PIN|OTP)([_-]|$)",
    re.IGNORECASE,
)
_HARMLESS = frozenset({"PWD", "OLDPWD", "XDG_SESSION_TYPE", "XDG_SESSION_CLASS", "DESKTOP_SESSION", "KEYMAP"})
# tokens that show themselves whatever the variable is called
_VALUE = re.compile(
    r"\b(gh[opsur]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|A[KS]IA[A-Z0-9]{16}|AIza[\w-]{30,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
)
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)[^/\s@'\"]+@")
_QUERY = re.compile(r"(?P<name>[?&][\w.-]*(?:token|key|secret|pass|sig|auth|cred)[\w.-]*=)[^&\s'\"]+", re.I)
_FLAG = re.compile(r"-{1,2}(?P<name>[A-Za-z][\w.-]*)(?P<equals>=)?")
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_][\w.]*)=")


def mask_text(text: str) -> str:
    """Take credentials inside URLs, and tokens of known forms, out of a text.

    Examples:
        >>> mask_text("git clone https://me:hunter2@example.org/x.git")
        'git clone https://***@example.org/x.git'
    """
    text = _URL.sub(rf"\g<scheme>{MASK}@", text)
    text = _QUERY.sub(rf"\g<name>{MASK}", text)
    return _VALUE.sub(MASK, text)


def is_secret_name(name: str) -> bool:
    """Tell whether a variable or flag of this name may hold a secret.

    Examples:
        >>> is_secret_name("WANDB_API_KEY"), is_secret_name("PWD"), is_secret_name("OMP_NUM_THREADS")
        (True, False, False)
    """
    return name not in _HARMLESS and _NAME.search(name) is not None


def mask_values(value: Any) -> Any:
    """Replace secrets in nested plain values: under secret names, and tokens of known forms in any text.

    Examples:
        >>> mask_values({"task": {"api_key": "abc", "lr": 0.1}, "note": "hf_abcdefghijklmnop1234"})
        {'task': {'api_key': '***', 'lr': 0.1}, 'note': '***'}
    """
    if isinstance(value, Mapping):
        return {
            name: MASK if isinstance(item, str) and is_secret_name(str(name)) else mask_values(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [mask_values(item) for item in value]
    return mask_text(value) if isinstance(value, str) else value


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Replace the values of secret variables, and secrets inside other values.

    Examples:
        >>> mask_environment({"HF_TOKEN": "abc", "RANK": "0"})
        {'HF_TOKEN': '***', 'RANK': '0'}
    """
    return {
        name: MASK if is_secret_name(name) else _without(mask_text(value), environment)
        for name, value in sorted(environment.items())
    }


def mask_command(words: Sequence[str], environment: Mapping[str, str] | None = None) -> list[str]:
    """Replace secrets in a command line: after flags such as --token, in NAME=value, in URLs.

    Args:
        words: the command line.
        environment: values of its secret variables are taken out wherever they appear.

    Examples:
        >>> mask_command(["train", "--api-key", "abc", "--set", "db.password=x", "--lr=0.1"])
        ['train', '--api-key', '***', '--set', 'db.password=***', '--lr=0.1']
    """
    masked: list[str] = []
    next_is_secret = False
    for word in words:
        flag, assigned = _FLAG.match(word), _ASSIGNED.match(word)
        if next_is_secret and not word.startswith("--"):
            masked.append(MASK)
            next_is_secret = False
            continue
        next_is_secret = False
        if flag and is_secret_name(flag["name"]):
            next_is_secret = not flag["equals"]
            masked.append(f"{flag[0]}{MASK}" if flag["equals"] else word)
        elif assigned and is_secret_name(assigned["name"]):
            masked.append(f"{assigned[0]}{MASK}")
        else:
            masked.append(_without(mask_text(word), environment or {}))
    return masked


def _without(text: str, environment: Mapping[str, str]) -> str:
    for name, value in environment.items():
        # short values ("1", "yes") would blank out half of every text
        if len(value) >= 8 and value in text and is_secret_name(name):
            text = text.replace(value, MASK)
    return text
