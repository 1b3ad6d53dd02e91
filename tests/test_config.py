from __future__ import annotations

import tomllib

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from hemostat.config import Config, Resolved, decode, merge, parse_overrides, read_toml, to_plain
from hemostat.errors import FieldError, UnknownNameError, UsageError
from hemostat.findings import Finding, Severity


class Optimizer(Config, kw_only=True):
    lr: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)
    clip_norm: float | None = None


class Settings(Config, kw_only=True):
    steps: int = 10
    optimizer: Optimizer = Optimizer()
    name: str = "run"


names = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)
leaves = st.one_of(
    st.booleans(),
    st.integers(min_value=-(2**53), max_value=2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    names.filter(lambda word: word not in ("true", "false", "inf", "nan")),
)
trees = st.recursive(
    st.dictionaries(names, leaves, max_size=3), lambda sub: st.dictionaries(names, sub, max_size=3)
)


def flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}={str(value).lower() if isinstance(value, bool) else value}"


def without_empty(tree):
    kept = {key: without_empty(item) if isinstance(item, dict) else item for key, item in tree.items()}
    return {key: item for key, item in kept.items() if item != {}}


class TestOverrides:
    @given(trees)
    def test_a_tree_written_as_pairs_is_read_back(self, tree):
        assert parse_overrides(flat(tree)) == without_empty(tree)

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("1e-3", 1e-3),
            (".5", 0.5),
            ("1_000", 1000),
            ("true", True),
            ("cosine", "cosine"),
            ('"0.1"', "0.1"),
            ("[1, 2]", [1, 2]),
            ("", ""),
            ("a=b", "a=b"),
            ("80GiB", "80GiB"),
        ],
    )
    def test_values(self, text, value):
        read = parse_overrides([f"x={text}"])["x"]
        assert read == value
        assert type(read) is type(value)

    @pytest.mark.parametrize("pair", ["lr", "=3", "a..b=3", ".a=3", ""])
    def test_a_pair_without_a_name_or_a_value_is_refused(self, pair):
        with pytest.raises(FieldError, match=r"is not name=value\. Write it like --set lr=0\.1"):
            parse_overrides([pair])

    def test_a_name_cannot_be_a_value_and_a_section(self):
        with pytest.raises(FieldError, match="'train' was set to a value before"):
            parse_overrides(["train=3", "train.seed=3"])

    def test_the_last_of_two_wins(self):
        assert parse_overrides(["lr=1", "lr=2"]) == {"lr": 2}


class TestMerge:
    @given(trees, trees)
    def test_every_value_of_the_upper_one_is_kept(self, under, over):
        merged = merge(under, over)
        assert merge(merged, over) == merged
        assert set(merged) == set(under) | set(over)
        assert all(merged[key] == value for key, value in over.items() if not isinstance(value, dict))

    @given(trees)
    def test_nothing_laid_over_changes_nothing(self, tree):
        assert merge(tree, {}) == tree == merge({}, tree)

    def test_neither_input_is_changed(self):
        under, over = {"a": {"b": 1}}, {"a": {"c": 2}}
        merge(under, over)
        assert (under, over) == ({"a": {"b": 1}}, {"a": {"c": 2}})

    def test_a_value_replaces_a_section(self):
        assert merge({"a": {"b": 1}}, {"a": 3}) == {"a": 3}


class TestDecode:
    def test_nested_values(self):
        settings = decode(Settings, {"optimizer": {"lr": 1, "betas": [0.9, 0.95]}})
        assert settings == Settings(optimizer=Optimizer(lr=1.0, betas=(0.9, 0.95)))
        assert isinstance(settings.optimizer.lr, float)

    def test_an_unknown_key_lists_the_known_ones_and_the_nearest(self):
        with pytest.raises(UnknownNameError) as caught:
            decode(Settings, {"step": 3})
        assert str(caught.value) == (
            "--set='step': is not known. Did you mean 'steps'? Known: name, optimizer, steps."
        )

    def test_an_unknown_key_of_a_section_names_the_section(self):
        with pytest.raises(UnknownNameError, match=r"^optimizer='learn'.*Known: betas, clip_norm, lr"):
            decode(Optimizer, {"learn": 3}, prefix="optimizer.")

    @pytest.mark.parametrize(
        ("values", "start"),
        [
            ({"steps": "ten"}, "steps='ten': must be int, not str."),
            ({"steps": 1.5}, "steps=1.5: must be int, not float."),
            ({"name": 3}, "name=3: must be str, not int."),
        ],
    )
    def test_a_wrong_type_is_told_in_words(self, values, start):
        with pytest.raises(FieldError) as caught:
            decode(Settings, values)
        assert str(caught.value).startswith(start)
        assert "`" not in str(caught.value)

    def test_a_wrong_type_inside_a_section_names_the_inner_field(self):
        with pytest.raises(FieldError) as caught:
            decode(Settings, {"optimizer": {"lr": "high"}})
        assert str(caught.value).startswith("optimizer.lr='high': must be float, not str.")

    def test_an_unknown_key_inside_a_section_lists_its_known_ones(self):
        with pytest.raises(UnknownNameError, match=r"optimizer='learn'.*Known: betas, clip_norm, lr"):
            decode(Settings, {"optimizer": {"learn": 3}})

    def test_settings_are_frozen_and_keyword_only(self):
        with pytest.raises(AttributeError):
            Settings().steps = 3  # type: ignore[misc]
        with pytest.raises(TypeError):
            Settings(3)  # type: ignore[misc]


class TestFiles:
    def test_settings_survive_a_file(self, tmp_path):
        settings = Settings(steps=3, optimizer=Optimizer(lr=1e-4))
        path = tmp_path / "settings.toml"
        path.write_text(tomli_w.dumps(to_plain(settings)))
        assert decode(Settings, read_toml(path)) == settings
        assert "clip_norm" not in path.read_text()  # None is left out

    @pytest.mark.parametrize(
        ("content", "rule"),
        [(b"lr = = 3", "is not valid TOML"), (b"\xff\xfe", "is not valid TOML"), (None, "no such file")],
    )
    def test_a_bad_file_is_one_line(self, tmp_path, content, rule):
        path = tmp_path / "settings.toml"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(FieldError, match=rule) as caught:
            read_toml(path)
        assert "\n" not in str(caught.value)

    def test_a_folder_is_not_a_file(self, tmp_path):
        with pytest.raises(FieldError, match="cannot be read"):
            read_toml(tmp_path)


class TestToPlain:
    def test_structs_tuples_and_enums_become_plain(self):
        finding = Finding(code="HL001", severity=Severity.ERROR, message="m", evidence={"k": {"n": 2}})
        assert to_plain([finding])[0]["evidence"] == {"k": {"n": 2}}
        assert tomli_w.dumps(to_plain(Optimizer())) == tomli_w.dumps({"lr": 0.1, "betas": [0.9, 0.999]})
        assert to_plain(finding)["severity"] == 2

    def test_none_is_left_out_at_every_depth(self):
        resolved = Resolved(field="lr", value={"a": None, "b": [None, {"c": None}]}, why="because")
        plain = to_plain(resolved)
        assert "before" not in plain
        assert plain["value"] == {"b": [None, {}]}  # a list keeps its length

    def test_what_no_format_can_hold_is_a_usage_error(self):
        with pytest.raises(UsageError, match="cannot be written"):
            to_plain({"model": object()})

    @given(trees)
    def test_plain_trees_survive_toml(self, tree):
        assert tomllib.loads(tomli_w.dumps(to_plain(tree))) == tree
