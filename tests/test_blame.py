"""Naming the user's line of an exception."""

import json
from pathlib import Path

import pytest

from hemostat.blame import defined_at, on_rank, own_line, said, shown, user_line


def test_the_innermost_line_that_is_the_users():
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")  # raised deep inside the standard library
    line = test_the_innermost_line_that_is_the_users.__code__.co_firstlineno + 2
    assert user_line(caught.value).endswith(f"test_blame.py:{line}")
    assert own_line(caught.value) == user_line(caught.value)


def test_an_exception_that_was_never_raised_has_no_line():
    assert user_line(ValueError("made, not raised")) == ""


def test_paths_are_shown_as_the_user_would_write_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert shown(tmp_path / "tasks" / "digits.py") == str(Path("tasks") / "digits.py")
    assert shown("/somewhere/else.py") == "/somewhere/else.py"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("image"), "KeyError: 'image'"),
        (ValueError("one\ntwo"), "ValueError: one"),
        (OSError(), "OSError"),
    ],
)
def test_what_was_said(error, text):
    assert said(error) == text


def test_a_rank_is_named_in_a_job_of_several(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert on_rank() == ""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert on_rank() == ""
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert on_rank().startswith(" on rank 1 of 3 (host ")


def test_where_no_frame_is_the_users_own_line_is_empty():
    code = compile("def fail(): raise KeyError('x')", "/usr/lib/site-packages/lib.py", "exec")
    names = {}
    exec(code, names)
    try:
        names["fail"]()
    except KeyError as error:
        error.__traceback__ = error.__traceback__.tb_next
        assert (own_line(error), user_line(error)) == ("", "/usr/lib/site-packages/lib.py:1")
    else:
        raise AssertionError


def test_where_a_function_begins():
    line = test_where_a_function_begins.__code__.co_firstlineno
    assert defined_at(test_where_a_function_begins).endswith(f"test_blame.py:{line}")
    assert defined_at(len) == ""
