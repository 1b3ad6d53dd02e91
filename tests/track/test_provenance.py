"""Provenance: complete, plain, and without secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import hemostat
from hemostat.track import collect_provenance
from hemostat.track.provenance import memory_bytes, package_versions, usable_cpus


def test_everything_is_there_and_plain(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("SOME_API_KEY", "do-not-show-me")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    found = collect_provenance(tmp_path)
    text = json.dumps(found)
    assert "do-not-show-me" not in text
    assert found["environment"]["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert found["environment"]["SOME_API_KEY"] == "***"
    assert found["git"] == {"state": "no repository"}
    assert found["python"] == sys.version.split()[0]
    assert found["num_cpus"] == usable_cpus() >= 1
    assert found["memory_bytes"] == memory_bytes() > 2**27
    assert found["cwd"] == str(Path.cwd())


def test_packages_are_those_that_are_imported():
    import msgspec

    packages = package_versions()
    assert packages["hemostat"] == hemostat.__version__
    assert packages["msgspec"] == msgspec.__version__


def test_the_command_keeps_modules_and_loses_secrets(tmp_path):
    (tmp_path / "show.py").write_text(
        "import json; from hemostat.track import collect_provenance\n"
        "print(json.dumps(collect_provenance()['command']))\n"
    )
    words = [sys.executable, "-m", "show", "--token", "abcdefgh"]
    done = subprocess.run(words, cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[1:] == ["-m", "show", "--token", "***"]


def test_no_torch_is_loaded():
    code = (
        "import sys, hemostat.track, hemostat.launch, hemostat.plan\n"
        "print('torch' in sys.modules, 'numpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
