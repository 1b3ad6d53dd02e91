import base64
import email
import logging
import socket
import subprocess
import sys
import time
from email import policy

import pytest

from hemostat.errors import FieldError, UnknownNameError
from hemostat.report import Message, Notifier, NotifySettings

CRASH = Message(
    event="crash", title="run a has crashed", sentence="rank 1 was killed", command="go on: hemostat ..."
)


def test_a_webhook_gets_the_sentence_the_command_and_the_picture(webhook, tmp_path):
    picture = tmp_path / "loss.png"
    picture.write_bytes(b"\x89PNG not really")
    message = Message(event="end", title="a title", sentence="why", command="go on: x", picture=picture)
    assert Notifier(NotifySettings(urls=(webhook.url,))).send(message) == []
    (got,) = webhook.got
    assert got["title"] == "a title" and "why" in got["message"] and "go on: x" in got["message"]
    assert base64.b64decode(got["attachments"][0]["base64"]) == b"\x89PNG not really"


def test_a_letter_is_delivered(mail_server):
    assert Notifier(NotifySettings(urls=(mail_server.url,))).send(CRASH) == []
    letter = email.message_from_string(mail_server.got[0], policy=policy.default)
    assert letter["Subject"] == CRASH.title and letter["To"] == "me@example.org"
    assert "rank 1 was killed" in letter.get_body(("plain", "html")).get_content()


def test_addresses_come_from_the_environment_too(webhook, monkeypatch):
    monkeypatch.setenv("HOOK", webhook.url)
    monkeypatch.setenv("HEMOSTAT_NOTIFY", webhook.url)
    Notifier(NotifySettings(urls=("$HOOK",))).send(CRASH)
    assert len(webhook.got) == 2


def test_only_what_is_asked_for_is_told(webhook):
    notifier = Notifier(NotifySettings(urls=(webhook.url,), events=("guard",)))
    assert notifier.send(CRASH) == [] and webhook.got == []


def test_each_failure_is_one_sentence_that_hides_the_address(webhook, capfd):
    webhook.answer = 500
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        refused = f"json://user:hunter2@127.0.0.1:{nobody.getsockname()[1]}/secret-path"
    logging.getLogger("apprise").handlers.clear()
    troubles = Notifier(NotifySettings(urls=(webhook.url, refused, "nonsense-hunter2", "no://hunter2"))).send(
        CRASH
    )
    assert len(troubles) == 4
    assert troubles[0] == "notification 1 (json) was not taken by the other side"
    assert troubles[2] == "notification 3 (no scheme) is not an address that apprise knows"
    out = capfd.readouterr()
    for text in (*troubles, out.out, out.err):
        assert "hunter2" not in text and "secret-path" not in text


def test_what_cannot_be_an_address_is_said_before_there_is_a_message(monkeypatch):
    monkeypatch.setenv("HOOK", "example.org/hook")
    urls = (
        "slack://$NOPE",
        "nosuch://hunter2",
        "json://$HOOK",
        "json://me:hun$TER2@example.org",
        "json://${NOPE}/a",
    )
    faults = Notifier(NotifySettings(urls=urls)).faults()
    assert faults == [
        "notification 1 (slack) needs the variable NOPE, which is not set",
        "notification 2 (nosuch) is not an address that apprise knows",
        "notification 5 (json) needs the variable NOPE, which is not set",
    ]
    assert Notifier(NotifySettings(urls=urls[:1])).send(CRASH) == faults[:1]


def test_a_silent_server_costs_no_more_than_the_time_out():
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        start_s = time.monotonic()
        url = f"json://127.0.0.1:{deaf.getsockname()[1]}"
        (trouble,) = Notifier(NotifySettings(urls=(url,)), timeout_s=0.5).send(CRASH)
        assert time.monotonic() - start_s < 3.0
    assert trouble == "notification 1 (json) did not answer within 0.5 s"


def test_without_apprise_the_pip_line_is_said(webhook, monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    (trouble,) = Notifier(NotifySettings(urls=(webhook.url,))).send(CRASH)
    assert trouble.endswith("pip install 'hemostat[notify]'")


def test_apprise_is_loaded_for_a_message_only():
    made = "import sys, hemostat.report as r; r.Notifier(r.NotifySettings(urls=('json://x',)))"
    code = f"{made}; print('apprise' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_what_cannot_be_meant_is_refused_without_showing_it():
    with pytest.raises(UnknownNameError, match=r"notify\.events='crashes'"):
        NotifySettings(events=("crashes",))
    for section in ({"urls": "slack://hunter2"}, {"urls": [3, "slack://hunter2"]}, "slack://hunter2"):
        with pytest.raises(FieldError, match="must be a list of texts") as refused:
            NotifySettings.check(section)
        assert "hunter2" not in str(refused.value)
