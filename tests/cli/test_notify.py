import pytest

from hemostat.cli.main import run


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_trial_reaches_everybody(webhook, mail_server, monkeypatch, capsys):
    monkeypatch.setenv("HEMOSTAT_NOTIFY", f"{webhook.url} {mail_server.url}")
    assert run(["notify"]) == 0
    assert "2 of 2 took the message" in capsys.readouterr().out
    assert len(webhook.got) == len(mail_server.got) == 1


def test_a_dead_address_is_a_finding(webhook, monkeypatch, capsys):
    webhook.answer = 404
    monkeypatch.setenv("HEMOSTAT_NOTIFY", webhook.url)
    assert run(["notify"]) == 1
    said = capsys.readouterr()
    assert "notification 1 (json) was not taken" in said.err and "hunter2" not in said.err + said.out


def test_nobody_to_tell_is_a_finding(capsys):
    assert run(["notify"]) == 1
    assert "nobody is told" in capsys.readouterr().err


def test_a_wrong_file_is_a_usage_error(tmp_path, capsys):
    (tmp_path / "hemostat.toml").write_text('[notify]\nevents = ["now"]\n')
    assert run(["notify"]) == 2
    assert "notify.events='now'" in capsys.readouterr().err
