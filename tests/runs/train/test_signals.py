"""A first signal is a request, a second Ctrl-C an order; handlers are given back."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from lrbench.runs.train.signals import StopRequest


@pytest.fixture(autouse=True)
def default_handlers() -> Iterator[None]:
    """Start from Python's handlers: a shell starts background jobs with SIGINT ignored."""
    old = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGTERM: signal.signal(signal.SIGTERM, signal.SIG_DFL),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in old.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_first_signal_sets_the_flag(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with StopRequest() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
        assert stop.name == number.name
    assert signal.getsignal(number) is before
    assert stop.requested


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_ctrl_c_after_a_request_interrupts(first: signal.Signals) -> None:
    with StopRequest() as stop:
        signal.raise_signal(first)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.name == first.name
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_repeated_sigterm_stays_a_request() -> None:
    with StopRequest() as stop:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert stop.name == "SIGINT"


def test_handlers_of_others_come_back_even_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = []

    def other(number: int, frame: object) -> None:
        seen.append(number)

    old = signal.signal(signal.SIGTERM, other)
    try:
        with pytest.raises(ZeroDivisionError), StopRequest() as stop:
            signal.raise_signal(signal.SIGTERM)
            raise ZeroDivisionError
        assert stop.requested
        assert seen == []
        signal.raise_signal(signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, old)


def test_nested_requests_unwind() -> None:
    with StopRequest() as outer:
        with StopRequest() as inner:
            signal.raise_signal(signal.SIGTERM)
        assert inner.requested
        assert not outer.requested
        signal.raise_signal(signal.SIGTERM)
        assert outer.requested


def test_another_thread_installs_nothing() -> None:
    found = []

    def work() -> None:
        with StopRequest() as stop:
            found.append(signal.getsignal(signal.SIGTERM))
            stop.request("SIGTERM")
            found.append(stop.name)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [before, "SIGTERM"]


def test_ignored_signal_stays_ignored() -> None:
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGINT)
            assert not stop.requested
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, old)


def test_submitit_keeps_its_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)]
    with StopRequest() as stop:
        after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)]
        assert after == before
        signal.raise_signal(signal.SIGINT)
        assert stop.name == "SIGINT"
