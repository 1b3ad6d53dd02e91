import pytest

from hemostat.cli.project import read_project
from hemostat.errors import FieldError, UsageError


def test_without_the_file_nothing_is_set(tmp_path):
    project = read_project(tmp_path)
    assert project.budget.limits == {} and project.notify.urls == ()


def test_both_sections_are_read_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "hemostat.toml").write_text(
        '[budget]\nusd = "$5"\n[notify]\nurls = ["json://x"]\nevents = ["crash"]\n'
    )
    monkeypatch.chdir(tmp_path)
    project = read_project()
    assert project.budget.limits == {"usd": 5.0} and project.notify.events == ("crash",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[budgets]\n", "Did you mean 'budget'"),
        ("[budget]\nusd = 0\n", "budget.usd=0.0: must be above 0"),
        ("[notify]\nmails = []\n", "notify='mails'"),
        ("[notify\n", "is not valid TOML"),
    ],
)
def test_mistakes_are_named(text, said, tmp_path):
    (tmp_path / "hemostat.toml").write_text(text)
    with pytest.raises(UsageError) as refused:
        read_project(tmp_path)
    assert said in str(refused.value)


def test_an_address_is_never_shown(tmp_path):
    for value in ('"slack://hunter2"', '["slack://hunter2", 3]'):
        (tmp_path / "hemostat.toml").write_text(f"[notify]\nurls = {value}\n")
        with pytest.raises(FieldError) as refused:
            read_project(tmp_path)
        assert "hunter2" not in str(refused.value)
