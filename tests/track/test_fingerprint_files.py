"""Fingerprints are kept with a run, bounded, and a garbled one is none."""

from hemostat.track import RunRecord, fingerprint
from hemostat.track.fingerprint_files import MAX_FILES


def test_a_fingerprint_is_read_back_with_its_files(tmp_path):
    record = RunRecord(tmp_path, {})
    found = fingerprint([("a", b"x"), ("b", b"y")])
    record.add_fingerprint(found)
    back = record.fingerprint("full")
    assert back.digest == found.digest and back.files["a"] == (1, found.files["a"][1][:32])
    assert record.fingerprint("sample") is None


def test_of_files_that_were_kept_only_the_changed_one_is_named(tmp_path):
    """They are kept with shorter digests than new ones have."""
    record = RunRecord(tmp_path, {})
    record.add_fingerprint(fingerprint([("a", b"x"), ("b", b"y")]))
    kept = record.fingerprint("full").files
    assert fingerprint([("a", b"z"), ("b", b"y")]).changes(kept) == ["shard a differs"]
    assert fingerprint([("a", b"x"), ("b", b"y")]).changes(kept) == []


def test_the_list_of_files_is_bounded(tmp_path):
    record = RunRecord(tmp_path, {})
    record.add_fingerprint(fingerprint([(str(number), b"") for number in range(MAX_FILES + 1)]))
    assert record.fingerprint("full").files == {} and record.fingerprint("full").num_files == MAX_FILES + 1


def test_a_garbled_file_is_none(tmp_path):
    (tmp_path / "data.full.json").write_text('{"tier": "full"}')
    assert RunRecord(tmp_path, {}).fingerprint("full") is None
    (tmp_path / "data.full.json").write_text("{")
    assert RunRecord(tmp_path, {}).fingerprint("full") is None
