from __future__ import annotations

import inspect
import re

import pytest

from hemostat import errors

LINE = re.compile(r"^(?P<bars>[│├└─ ]*)(?P<name>[A-Z]\w+)(?:\s+(?P<status>\d+)(?:\s|$))?")


def drawn_tree(text: str) -> dict[str, tuple[str | None, int | None]]:
    """Name -> (parent, exit status as written beside it or inherited) of the tree in the docstring."""
    tree: dict[str, tuple[str | None, int | None]] = {}
    path: list[tuple[int, str]] = []
    for line in text.splitlines()[1:]:
        match = LINE.match(line)
        if not match:
            continue
        depth = len(match["bars"])
        path = [(column, name) for column, name in path if column < depth]
        parent = path[-1][1] if path else None
        inherited = tree[parent][1] if parent else None
        tree[match["name"]] = (parent, int(match["status"]) if match["status"] else inherited)
        path.append((depth, match["name"]))
    return tree


def real_tree() -> dict[str, tuple[str | None, int | None]]:
    classes = [
        value
        for value in vars(errors).values()
        if inspect.isclass(value) and value.__module__ == errors.__name__
    ]
    names = {cls.__name__ for cls in classes}
    return {
        cls.__name__: (
            cls.__base__.__name__ if cls.__base__.__name__ in names else None,
            getattr(cls, "exit_status", None),
        )
        for cls in classes
    }


def test_the_drawn_tree_is_the_real_one():
    assert drawn_tree(errors.__doc__) == real_tree()


def test_reading_the_drawing_sees_a_wrong_parent_and_a_wrong_status():
    moved = errors.__doc__.replace("├── GuardStop ", "│   ├── GuardStop ")
    assert drawn_tree(moved) != real_tree()
    renumbered = re.sub(r"GuardStop +4", "GuardStop 5", errors.__doc__)
    assert drawn_tree(renumbered) != real_tree()


@pytest.mark.parametrize(
    ("cls", "status"),
    [
        (errors.HemostatError, 3),
        (errors.FieldError, 2),
        (errors.TaskError, 2),
        (errors.MissingExtraError, 2),
        (errors.RecordError, 3),
        (errors.RankFailureError, 3),
        (errors.GuardStop, 4),
        (errors.BudgetStop, 5),
        (errors.Interrupted, 75),
    ],
)
def test_exit_statuses_are_those_of_the_design(cls, status):
    assert cls.exit_status == status


def test_every_error_has_a_docstring():
    assert [name for name in real_tree() if not vars(errors)[name].__dict__.get("__doc__")] == []


def test_a_field_error_names_field_value_rule_and_fix():
    error = errors.FieldError("micro_batch", 0, "must be at least 1", "Write micro_batch=1.")
    assert str(error) == "micro_batch=0: must be at least 1. Write micro_batch=1."
    assert (error.field, error.value) == ("micro_batch", 0)


def test_an_unknown_name_lists_the_known_ones_sorted_with_the_nearest():
    error = errors.UnknownNameError("optimizer", "adamv", ["sgd", "adamw", "lion"])
    assert "Did you mean 'adamw'?" in str(error)
    assert str(error).endswith("Known: adamw, lion, sgd.")


@pytest.mark.parametrize("typed", ["p4d", "P4D.24xlarg", "p4d.24xlarge "])
def test_of_a_long_list_the_most_alike_are_shown(typed):
    known = [
        f"{kind}.{size}xlarge" for kind in ("p3", "p4d", "p4de", "p5", "g5", "g6") for size in range(2, 24, 2)
    ]
    message = str(errors.UnknownNameError("instance", typed, [*known, "p4d.24xlarge"]))
    assert "Did you mean 'p4d." in message and message.endswith(" and 59 more.")
    assert message.count("xlarge") <= 10


def test_a_long_list_of_which_none_is_like_it_is_cut():
    message = str(errors.UnknownNameError("instance", "zzz", [f"name{number:02}" for number in range(92)]))
    assert message.startswith("instance='zzz': is not known. Known: name00, name01,")
    assert message.endswith("name07 and 84 more.")


def test_an_unknown_name_far_from_all_makes_no_guess():
    message = str(errors.UnknownNameError("optimizer", "zzz", ["sgd"]))
    assert message == "optimizer='zzz': is not known. Known: sgd."


def test_a_missing_extra_prints_the_pip_line():
    error = errors.MissingExtraError("apprise", extra="notify", purpose="a message at the end")
    assert "pip install 'hemostat[notify]'" in str(error)


def test_a_warning_is_not_an_error():
    assert not issubclass(errors.HemostatWarning, errors.HemostatError)
    with pytest.warns(errors.HemostatWarning, match="held"):
        import warnings

        warnings.warn("the batch is held", errors.HemostatWarning, stacklevel=1)
