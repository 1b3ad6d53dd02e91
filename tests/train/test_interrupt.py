import os
import signal
import threading

import pytest

from hemostat.train.interrupt import Interrupt


@pytest.fixture
def interrupt():
    listening = Interrupt()
    listening.install()
    yield listening
    listening.remove()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_noted_not_raised(interrupt, number):
    os.kill(os.getpid(), number)
    assert interrupt.name == number.name


def test_a_second_ctrl_c_is_an_interrupt(interrupt):
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_the_handlers_go_back():
    before = signal.getsignal(signal.SIGINT)
    listening = Interrupt()
    listening.install()
    assert signal.getsignal(signal.SIGINT) != before
    listening.remove()
    assert signal.getsignal(signal.SIGINT) == before


def test_other_threads_are_left_alone():
    before = signal.getsignal(signal.SIGINT)
    listening = Interrupt()
    thread = threading.Thread(target=listening.install)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) == before
