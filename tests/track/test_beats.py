"""Who hangs, told from the beats: silent, behind, or all slow together."""

from __future__ import annotations

import pytest

from hemostat.track.beats import PHASES, Beat, Lookout, forget_beats, read_beats, write_beat


def beat(rank: int, phase: str, step: int, count: int, phase_s: float, **more) -> Beat:
    return Beat(
        rank=rank, pid=10 + rank, phase=phase, step=step, count=count, phase_s=phase_s, stall_s=5, **more
    )


def watch(tmp_path, *ranks, for_s: int = 12):
    """Look each second; a rank is (phase, step, part, silent)."""
    lookout = Lookout(tmp_path)
    for now_s in range(for_s):
        for rank, (phase, step, part, silent) in enumerate(ranks):
            if not silent or now_s == 0:
                write_beat(tmp_path, beat(rank, phase, step, now_s, now_s, part=part, stack="  there"))
        hang = lookout.look(float(now_s))
        if hang is not None:
            return now_s, hang
    return None


@pytest.mark.parametrize("phase", PHASES[:-1])
def test_a_rank_that_is_behind_is_named_with_its_stack(tmp_path, phase):
    now_s, hang = watch(tmp_path, ("reduce", 7, 1, False), (phase, 7, 1, False))
    assert now_s == 6 and hang.beat.rank == 1 and not hang.silent
    assert hang.sentence() == (
        f"rank 1 hangs in {phase} after step 7 for 6 s (train.stall_s=5), and the others wait for it. "
        "It stands at\n  there"
    )


def test_what_follows_a_step_lies_before_the_next_one(tmp_path):
    assert watch(tmp_path, ("data", 7, 1, False), ("evaluate", 7, 0, False))[1].beat.rank == 1
    assert watch(tmp_path, ("evaluate", 7, 0, False), ("reduce", 6, 4, False))[1].beat.rank == 1


def test_a_silent_rank_is_named_wherever_it_stands(tmp_path):
    now_s, hang = watch(tmp_path, ("reduce", 7, 1, False), ("reduce", 7, 1, True))
    assert now_s == 6 and hang.beat.rank == 1
    assert "does not answer" in hang.sentence() and "there" not in hang.sentence()


@pytest.mark.parametrize("phase", ["data", "forward", "save", "evaluate", "reduce"])
def test_a_rank_alone_is_named_where_it_stands_and_let_be(tmp_path, phase):
    lookout = Lookout(tmp_path)
    for now_s in range(6):
        write_beat(tmp_path, beat(0, phase, 7, now_s, now_s, num_ranks=1))
        assert lookout.look(float(now_s)) is None
    write_beat(tmp_path, beat(0, phase, 7, 6, 6, num_ranks=1, stack="  there"))
    hang = lookout.look(6.0)
    assert not hang.certain
    assert hang.sentence() == (
        f"rank 0 has stood in {phase} after step 7 for 6 s (train.stall_s=5), and is let be: it may be slow. "
        "It stands at\n  there"
    )


def test_a_rank_alone_that_does_not_answer_is_named(tmp_path):
    lookout = Lookout(tmp_path)
    write_beat(tmp_path, beat(0, "forward", 7, 0, 0, num_ranks=1))
    found = [lookout.look(float(now_s)) for now_s in range(8)]
    assert found[5] is None and found[6].silent and not found[6].certain


@pytest.mark.parametrize("stuck", [0, 1])
def test_of_ranks_in_a_save_the_one_that_has_not_come_so_far_is_named_and_let_be(tmp_path, stuck):
    lookout = Lookout(tmp_path)
    for now_s in range(8):
        for rank in range(2):
            met = 3 if rank == stuck else 4
            write_beat(tmp_path, beat(rank, "save", 7, now_s, now_s, met=met, num_ranks=2, stack="  there"))
        hang = lookout.look(float(now_s))
        assert (hang is not None) == (now_s > 5)
    assert hang.beat.rank == stuck and not hang.certain and "stood in save" in hang.sentence()


@pytest.mark.parametrize("phase", PHASES)
def test_ranks_that_are_slow_together_do_not_hang(tmp_path, phase):
    assert watch(tmp_path, (phase, 7, 1, False), (phase, 7, 1, False), for_s=30) is None


def test_a_job_that_is_stopped_as_a_whole_and_one_rank_alone_do_not_hang(tmp_path):
    assert watch(tmp_path, ("reduce", 7, 1, True), ("data", 7, 1, True), for_s=30) is None
    forget_beats(tmp_path)
    assert watch(tmp_path, ("data", 7, 1, False), for_s=30) is None


def test_a_rank_that_others_have_not_waited_for_yet_does_not_hang(tmp_path):
    write_beat(tmp_path, beat(0, "reduce", 7, 1, 0.5))
    write_beat(tmp_path, beat(1, "data", 7, 1, 60.0))
    assert Lookout(tmp_path).look(0.0) is None


def test_a_rank_is_named_by_a_beat_that_brings_its_stack(tmp_path):
    lookout = Lookout(tmp_path)
    for now_s, phase_s, stack in ((0.0, 4.5, ""), (1.0, 4.5, ""), (1.5, 5.5, "  there")):
        write_beat(tmp_path, beat(0, "reduce", 7, int(10 * phase_s), phase_s + 1))
        write_beat(tmp_path, beat(1, "data", 7, int(10 * phase_s), phase_s, stack=stack))
        hang = lookout.look(now_s)
    assert hang is not None and hang.sentence().endswith("there")
    write_beat(tmp_path, beat(1, "data", 7, 99, 4.5))
    lookout.look(2.0)
    assert lookout.look(3.5) is None, "the next beat will bring it"


def test_a_watcher_that_was_stopped_itself_blames_nobody(tmp_path):
    lookout = Lookout(tmp_path)
    write_beat(tmp_path, beat(0, "reduce", 7, 1, 6.0))
    write_beat(tmp_path, beat(1, "reduce", 7, 1, 6.0))
    assert lookout.look(0.0) is None
    write_beat(tmp_path, beat(0, "reduce", 7, 2, 6.0))
    assert lookout.look(1000.0) is None


def test_a_restarted_rank_begins_anew(tmp_path):
    lookout = Lookout(tmp_path)
    for now_s in range(5):
        write_beat(tmp_path, beat(0, "reduce", 7, now_s, now_s))
        write_beat(tmp_path, beat(1, "data", 7, 0, 0.0))
        lookout.look(float(now_s))
    write_beat(tmp_path, Beat(rank=1, pid=99, phase="start", stall_s=5))
    write_beat(tmp_path, beat(0, "reduce", 7, 9, 9.0))
    assert lookout.look(6.0) is None


def test_garbled_foreign_and_removed_beats_count_as_absent(tmp_path):
    write_beat(tmp_path, beat(0, "data", 1, 0, 0))
    (tmp_path / "beat.1.json").write_text("{")
    (tmp_path / "beat.2.json").write_text('{"rank": 2, "phase": "dream"}')
    assert [found.rank for found in read_beats(tmp_path)] == [0]
    forget_beats(tmp_path, 0)
    assert not read_beats(tmp_path)


def test_a_folder_that_is_gone_is_no_error(tmp_path):
    write_beat(tmp_path / "gone", beat(0, "data", 1, 0, 0))
    assert not read_beats(tmp_path / "gone")
