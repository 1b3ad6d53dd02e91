"""Secrets leave neither through the environment nor through a command line."""

from __future__ import annotations

import pytest

from hemostat.track.masking import is_secret_name, mask_command, mask_environment, mask_text

SECRET = "s3cr3t-Value-99"


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "MYSQL_PWD",
        "db_passwd",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "SLACK_WEBHOOK_URL",
        "SENTRY_DSN",
        "GITHUB_PAT",
        "AZURE_STORAGE_CONNECTION_STRING",
        "AWS_SESSION_NAME",
    ],
)
def test_variables_whose_names_say_secret(name):
    assert mask_environment({name: SECRET}) == {name: "***"}


@pytest.mark.parametrize(
    "name", ["PWD", "OLDPWD", "PATH", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "PATTERN", "RANK"]
)
def test_variables_that_are_needed_stay(name):
    assert not is_secret_name(name)
    assert mask_environment({name: "0,1"}) == {name: "0,1"}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"postgres://user:{SECRET}@host:5432/db", "postgres://***@host:5432/db"),
        (f"https://{SECRET}@example.org/packages", "https://***@example.org/packages"),
        (
            f"https://example.org/x?a=1&access_token={SECRET}&b=2",
            "https://example.org/x?a=1&access_token=***&b=2",
        ),
        ("token ghp_abcdefghijklmnop1234 end", "token *** end"),
        ("AKIAABCDEFGHIJKLMNOP", "***"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n", "***"),
        ("https://example.org/a@b", "https://example.org/a@b"),
        ("sk-learn is fine", "sk-learn is fine"),
    ],
)
def test_secrets_that_show_themselves(text, kept):
    assert mask_text(text) == kept


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["--token", SECRET], ["--token", "***"]),
        ([f"--token={SECRET}"], ["--token=***"]),
        (["-password", SECRET, "x"], ["-password", "***", "x"]),
        ([f"WANDB_API_KEY={SECRET}", "train"], ["WANDB_API_KEY=***", "train"]),
        (["--use-auth", "--lr", "0.1"], ["--use-auth", "--lr", "0.1"]),
        (["--set", f"hub.token={SECRET}"], ["--set", "hub.token=***"]),
        (["--lr", "0.1", "data/train.bin"], ["--lr", "0.1", "data/train.bin"]),
        (["curl", f"https://me:{SECRET}@example.org"], ["curl", "https://***@example.org"]),
    ],
)
def test_command_lines(words, kept):
    assert mask_command(words) == kept


def test_the_value_of_a_secret_variable_is_found_elsewhere():
    environment = {"MY_TOKEN": SECRET, "BUILD_ARGS": f"--x {SECRET}", "SHORT_KEY": "yes"}
    assert mask_environment(environment)["BUILD_ARGS"] == "--x ***"
    assert mask_command(["--x", SECRET, "yes"], environment) == ["--x", "***", "yes"]
