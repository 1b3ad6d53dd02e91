"""Tells somebody by mail, Slack, webhook or desktop; apprise is imported here and only when there is a message."""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from hemostat.config import Config
from hemostat.errors import FieldError, MissingExtraError, UnknownNameError

EVENTS: Final = ("guard", "end", "crash", "budget")
TIMEOUT_S: Final = 15.0
VARIABLE: Final = "HEMOSTAT_NOTIFY"
_MISSING: Final = MissingExtraError("apprise", extra="notify", purpose="telling somebody")
# what os.path.expandvars leaves as it is; a whole part of an address only: a password may have a $ in it
_UNSET: Final = re.compile(r"(?<=[/:@=])\$\{?([A-Z][A-Z0-9_]*)\}?(?=[/:@?&]|$)")


class NotifySettings(Config, frozen=True, kw_only=True):
    """`[notify]` of hemostat.toml.

    Attributes:
        urls: as apprise writes them, "mailto://...", "slack://...", "json://..."; $NAME is taken from the
            environment, so that a secret need not stand in a file.
        events: of "guard", "end", "crash" and "budget", those that are told.
    """

    urls: tuple[str, ...] = ()
    events: tuple[str, ...] = EVENTS

    def __post_init__(self) -> None:
        """Events are known ones."""
        for name in self.events:
            if name not in EVENTS:
                raise UnknownNameError("notify.events", name, EVENTS)

    @staticmethod
    def check(section: Any) -> None:
        """Refuse a section whose urls are no list of texts, without showing what they are.

        Raises:
            FieldError: they are something else.
        """
        urls = section.get("urls", []) if isinstance(section, dict) else None
        if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
            fix = 'Write it like urls = ["slack://$SLACK"].'
            raise FieldError("notify.urls", "(not shown)", "must be a list of texts", fix)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One event.

    Attributes:
        event: one of `EVENTS`.
        title: what happened, to which run.
        sentence: why.
        command: how to stop it or to go on.
        picture: sent along where it exists.
    """

    event: str
    title: str
    sentence: str
    command: str = ""
    picture: Path | None = None

    @property
    def body(self) -> str:
        """The sentence and the command."""
        return f"{self.sentence}\n\n{self.command}".strip()


class Notifier:
    """Sends messages; what fails is told once a message and hurts nobody.

    Args:
        settings: addresses and events; those of HEMOSTAT_NOTIFY, separated by blanks, are added.
        timeout_s: how long one message may take.
    """

    def __init__(self, settings: NotifySettings, timeout_s: float = TIMEOUT_S) -> None:
        urls = [*settings.urls, *os.environ.get(VARIABLE, "").split()]
        self.urls = [os.path.expandvars(url) for url in urls]
        self._events = settings.events
        self._timeout_s = timeout_s

    def faults(self) -> list[str]:
        """One sentence for each address that cannot be one, before there is a message; none shows the address."""
        if not self.urls:
            return []
        try:
            import apprise
        except ImportError:
            return [str(_MISSING)]
        _hush()
        return [
            f"notification {number + 1} ({_scheme(url)}) {fault}"
            for number, url in enumerate(self.urls)
            if (fault := _fault(apprise.Apprise(), url))
        ]

    def wants(self, event: str) -> bool:
        """Somebody is told of such an event."""
        return bool(self.urls) and event in self._events

    def send(self, message: Message) -> list[str]:
        """Send one message to all addresses at once, if its event is asked for.

        Returns:
            One sentence for each address that did not take it; none of them shows the address.
        """
        if not self.wants(message.event):
            return []
        try:
            import apprise
        except ImportError:
            return [str(_MISSING)]
        _hush()
        said: dict[int, str] = {}
        threads = []
        for number, url in enumerate(self.urls):
            work = threading.Thread(target=_send_one, args=(apprise, url, message, said, number), daemon=True)
            work.start()
            threads.append(work)
        _join(threads, self._timeout_s)
        late = f"did not answer within {self._timeout_s:g} s"
        return [
            f"notification {number + 1} ({_scheme(url)}) {said.get(number, late)}"
            for number, url in enumerate(self.urls)
            if said.get(number, late)
        ]


def _send_one(apprise: Any, url: str, message: Message, said: dict[int, str], number: int) -> None:
    try:
        sender = apprise.Apprise()
        if fault := _fault(sender, url):
            said[number] = fault
            return
        picture = str(message.picture) if message.picture and message.picture.is_file() else None
        taken = sender.notify(title=message.title, body=message.body, attach=picture)
        said[number] = "" if taken else "was not taken by the other side"
    except (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError) as error:
        said[number] = f"failed with {type(error).__name__}"  # its text may hold the address


def _fault(sender: Any, url: str) -> str:
    """What is wrong with an address, which is added to the sender otherwise."""
    unset = _UNSET.search(url)
    if unset is not None and unset[1] not in os.environ:
        return f"needs the variable {unset[1]}, which is not set"
    return "" if sender.add(url) else "is not an address that apprise knows"


def _join(threads: Sequence[threading.Thread], timeout_s: float) -> None:
    end_s = time.monotonic() + timeout_s
    for thread in threads:
        thread.join(max(0.0, end_s - time.monotonic()))


def _scheme(url: str) -> str:
    scheme, found, _ = url.partition("://")
    return scheme if found and scheme.isalnum() else "no scheme"


def _hush() -> None:
    """Apprise logs addresses; nothing of that reaches a terminal or a file."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
