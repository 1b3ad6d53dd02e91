"""Spot notices: what a cloud says of this machine before it takes it away, asked for by a thread."""

from __future__ import annotations

import http.client
import json
import os
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Callable
from typing import Final

from hemostat.errors import FieldError, HemostatWarning

CLOUDS: Final = ("aws", "gcp")
LOOK_S: Final = 5.0
_TIMEOUT_S: Final = 2.0
_TOKEN_S: Final = 21600
_REFUSALS: Final = (OSError, http.client.HTTPException, ValueError)
_NONE: Final = ("", "false", "none", "no", "0")


def check_spot(value: str | None) -> None:
    """Refuse what is no place to ask.

    Raises:
        FieldError: neither a known cloud nor an address.

    Examples:
        >>> check_spot("aws")
        >>> check_spot("http://127.0.0.1:8080/notice")
    """
    if value is not None and value not in CLOUDS and not value.startswith(("http://", "https://")):
        raise FieldError(
            "train.spot",
            value,
            "is no place to ask",
            "Write aws, gcp, or the address that tells of a notice.",
        )


class SpotWatch:
    """Asks now and then whether this machine is to be taken away.

    AWS answers 404 until there is a notice, about two minutes before. GCP answers FALSE until then, and gives 30
    seconds. Any other address: 404 or an empty answer, "false", "none" or "no" is none.

    Args:
        where: "aws", "gcp" or an address.
        every_s: time between two questions.

    Source: AWS, Amazon EC2 User Guide, "Spot Instance interruption notices" (token by PUT /latest/api/token, then
        /latest/meta-data/spot/instance-action); Google, Compute Engine, "Detect preemption" (instance/preempted).
        Other addresses by the variables of their own tools: AWS_EC2_METADATA_SERVICE_ENDPOINT, GCE_METADATA_HOST.
    """

    def __init__(self, where: str, every_s: float = LOOK_S) -> None:
        self._where = where
        self._every_s = every_s
        # a metadata service is on the machine; a proxy must not hear of it
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, where: str | None, local_rank: int) -> SpotWatch | None:
        """A watch on one rank of each machine; None elsewhere and where nobody is to be asked."""
        return None if where is None or local_rank else cls(where)

    def start(self, tell: Callable[[str], None]) -> None:
        """Begin to ask.

        Args:
            tell: called once, with the notice.
        """
        self._thread = threading.Thread(target=self._run, args=(tell,), name="hemostat-spot", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask no more; a question under way is not waited for."""
        self._over.set()

    def _run(self, tell: Callable[[str], None]) -> None:
        silent = False
        while True:
            try:
                notice = self.look()
            except _REFUSALS as error:
                if not silent and not self._over.is_set():
                    warnings.warn(
                        f"train.spot={self._where}: {self._address()} does not answer ({error}); training goes on, "
                        "and it is asked again",
                        HemostatWarning,
                        stacklevel=2,
                    )
                silent, notice = True, ""
            if notice:
                tell(notice)
                return
            if self._over.wait(self._every_s):
                return

    def look(self) -> str:
        """Ask once: the notice as a few words, or an empty text.

        Raises:
            OSError: the address does not answer.
            ValueError: it answers nonsense.
        """
        if self._where == "aws":
            return self._aws()
        if self._where == "gcp":
            answer = self._get(
                f"{self._address()}/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"}
            )
            return "spot notice of GCP (preempted)" if answer.strip().upper() == "TRUE" else ""
        answer = self._get(self._where, {}).strip()
        return "" if answer.lower() in _NONE else f"spot notice from {self._where} ({answer[:80]})"

    def _aws(self) -> str:
        base = self._address()
        ask = urllib.request.Request(
            f"{base}/latest/api/token",
            method="PUT",
            headers={"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_S)},
        )
        with self._open(ask, timeout=_TIMEOUT_S) as answer:
            token = answer.read().decode()
        text = self._get(f"{base}/latest/meta-data/spot/instance-action", {"X-aws-ec2-metadata-token": token})
        if not text:
            return ""
        told = json.loads(text)
        return (
            f"spot notice of AWS ({told.get('action', 'an action')} at {told.get('time', 'an unknown time')})"
        )

    def _get(self, address: str, headers: dict[str, str]) -> str:
        try:
            with self._open(urllib.request.Request(address, headers=headers), timeout=_TIMEOUT_S) as answer:
                text: str = answer.read(4096).decode()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return ""
            raise
        return text

    def _address(self) -> str:
        if self._where == "aws":
            return os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254").rstrip("/")
        if self._where == "gcp":
            return f"http://{os.environ.get('GCE_METADATA_HOST', 'metadata.google.internal')}"
        return self._where
