"""Relay: signals reach the child once, then end it; nothing is left in its session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from hemostat.launch.relay import Relay

POLITE = """
import signal, sys, time
def leave(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    sys.exit(75)
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, leave)
print("ready", flush=True)
time.sleep(60)
"""
STUBBORN = POLITE.replace("sys.exit(75)", "pass").replace(
    "time.sleep(60)", "[time.sleep(1) for _ in range(60)]"
)


def child(code):
    words = [sys.executable, "-c", code]
    started = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert started.stdout.readline() == "ready\n"
    return started


def later(*numbers):
    def send():
        for number in numbers:
            time.sleep(0.2)
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


@pytest.mark.parametrize(
    ("sent", "seen"), [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGTERM")]
)
def test_one_signal_is_passed_on_once(sent, seen):
    with Relay() as relay:
        started = child(POLITE)
        thread = later(sent)
        assert relay.wait(started) == 75
    thread.join()
    assert started.stdout.read() == f"got {seen}\n"
    assert relay.received == [sent]


def test_the_second_signal_kills():
    with Relay() as relay:
        started = child(STUBBORN)
        thread = later(signal.SIGINT, signal.SIGINT)
        assert relay.wait(started) == -signal.SIGKILL
    thread.join()
    assert started.stdout.read() == "got SIGINT\n"


def test_a_signal_before_the_child_is_not_lost():
    with Relay() as relay:
        os.kill(os.getpid(), signal.SIGTERM)
        assert relay.wait(child(POLITE)) == 75


def test_what_the_child_leaves_behind_is_ended():
    code = (
        "import subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print('ready', flush=True); print(left.pid, flush=True)\n"
    )
    with Relay() as relay:
        started = child(code)
        assert relay.wait(started) == 0
    left = int(started.stdout.readline())
    deadline = time.monotonic() + 5
    while alive(left) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(left)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_handlers_are_put_back_and_ignored_signals_stay_ignored():
    before = signal.getsignal(signal.SIGTERM)
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Relay():
            assert signal.getsignal(signal.SIGTERM) != before
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, ignored)
    assert signal.getsignal(signal.SIGTERM) == before


def test_outside_the_main_thread_it_just_waits():
    codes = []

    def run():
        with Relay() as relay:
            codes.append(relay.wait(child("print('ready')")))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert codes == [0]
