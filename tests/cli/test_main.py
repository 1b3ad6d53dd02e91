from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import hemostat
from hemostat.cli import main

ALL_ERRORS = {
    "FieldError('lr', -1, 'must be above 0', 'Write 0.1.')": (
        2,
        "error: lr=-1: must be above 0. Write 0.1.\n",
    ),
    "TaskError('digits.py has no Task')": (2, "error: digits.py has no Task\n"),
    "MissingExtraError('ray', 'ray', 'this backend')": (
        2,
        "error: this backend needs ray. Install it: pip install 'hemostat[ray]'\n",
    ),
    "RecordError('disk full')": (3, "error: disk full\n"),
    "RankFailureError('rank 1 was killed by SIGKILL')": (3, "error: rank 1 was killed by SIGKILL\n"),
    "GuardStop('loss is NaN')": (4, "error: loss is NaN\n"),
    "BudgetStop('$40 are spent')": (5, "error: $40 are spent\n"),
    "Interrupted('saved at step 7')": (75, "error: saved at step 7\n"),
}


def shell(*words: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hemostat", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **kwargs,
    )


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Add a real command `probe` whose body is the given code."""

    def add(body: str) -> None:
        name = f"probe_{abs(hash(body))}"
        (tmp_path / f"{name}.py").write_text(
            "import typer\nfrom hemostat.errors import *\n"
            "app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)\n"
            f"@app.command()\ndef probe(num: int = 1) -> None:\n    {body}\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setitem(main.COMMANDS, "probe", (name, "a probe"))

    return add


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_every_command_with_its_line(word, capsys):
    assert main.run([word]) == 0
    text = capsys.readouterr().out
    for name, (_, line) in main.COMMANDS.items():
        assert f"  {name}" in text
        assert line in text


def test_help_fits_a_terminal():
    lines = main.root_help().splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100


def test_no_words_at_all_is_a_usage_error_that_shows_the_help(capsys):
    assert main.run([]) == 2
    assert capsys.readouterr().out.startswith("Usage: hemostat COMMAND")


def test_version(capsys):
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"hemostat {hemostat.__version__}\n"


def test_an_unknown_command_lists_the_known_ones_and_the_nearest(capsys):
    assert main.run(["recipes"]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "Did you mean 'recipe'?" in streams.err
    assert all(name in streams.err for name in main.COMMANDS)


@pytest.mark.parametrize(("error", "told"), ALL_ERRORS.items(), ids=lambda item: str(item)[:16])
def test_an_error_becomes_one_line_and_its_status(error, told, command, capsys):
    command(f"raise {error}")
    assert main.run(["probe"]) == told[0]
    streams = capsys.readouterr()
    assert (streams.out, streams.err) == ("", told[1])


@pytest.mark.parametrize("status", [0, 1, 4, 75])
def test_the_status_a_command_leaves_with_is_returned(status, command):
    command(f"raise typer.Exit({status})")
    assert main.run(["probe"]) == status


def test_a_command_that_returns_is_clean(command, capsys):
    command("print('num', num)")
    assert main.run(["probe", "--num", "3"]) == 0
    assert capsys.readouterr().out == "num 3\n"


@pytest.mark.parametrize("words", [["--nosuch"], ["--num", "three"], ["--num"], ["extra"]])
def test_a_wrong_flag_is_a_usage_error_of_one_line(words, command, capsys):
    command("print(num)")
    assert main.run(["probe", *words]) == 2
    streams = capsys.readouterr()
    assert streams.out == ""
    assert streams.err.startswith("error: ") and streams.err.count("\n") == 1
    assert words[0] in streams.err and streams.err.endswith(". See hemostat probe --help.\n")


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_says_wrong_words_in_one_line(name, capsys):
    assert main.run([name, "--nosuch"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: No such option: --nosuch") and told.count("\n") == 1


def test_an_end_that_the_code_asks_for_keeps_its_status(command):
    command("raise SystemExit(7)")
    assert main.run(["probe"]) == 7


def test_an_error_that_nobody_planned_is_not_hidden(command):
    command("raise ZeroDivisionError('a bug')")
    with pytest.raises(ZeroDivisionError):
        main.run(["probe"])


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_of_the_table_is_there_and_explains_itself(name, capsys):
    module, _ = main.COMMANDS[name]
    assert importlib.util.find_spec(module), f"{module} does not exist"
    assert main.run([name, "--help"]) == 0
    assert f"hemostat {name}" in capsys.readouterr().out


def test_every_command_file_is_in_the_table():
    folder = Path(main.__file__).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "main"}
    homes = {module.rpartition(".")[2] for module, _ in main.COMMANDS.values()}
    undeclared = {
        stem
        for stem in files - homes
        if "typer.Typer(" in (folder / f"{stem}.py").read_text(encoding="utf-8")
    }
    assert undeclared == set()


def test_the_script_and_the_module_are_the_same_command():
    script = Path(sys.executable).parent / "hemostat"
    by_module = shell("--help")
    by_script = subprocess.run([script, "--help"], capture_output=True, text=True, timeout=60, check=False)
    assert (by_module.returncode, by_module.stdout) == (by_script.returncode, by_script.stdout)


def test_the_process_ends_with_the_status():
    done = shell("nosuch")
    assert done.returncode == 2
    assert done.stderr.startswith("error: command='nosuch': is not known.")
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_leaves_no_traceback():
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "hemostat", "--help"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write_end)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
