"""Baselines against values that are worked out by hand."""

from __future__ import annotations

import gzip
import lzma
import math

import pytest


@pytest.fixture(scope="module")
def baselines(example):
    return example("baselines")


@pytest.fixture(scope="module")
def small(example):
    corpus = example("stdlib_corpus")
    return corpus.Corpus((corpus.SourceFile("a.py", b"aab"),), (corpus.SourceFile("b.py", b"ab"),))


def test_bigram_bits_are_those_of_the_smoothed_counts(baselines, small):
    # training pairs: \0a, aa, ab, b\0; held out: \0a, ab, b\0; every row has 256 halves added
    start, middle, end = 1.5 / 129, 1.5 / 130, 1.5 / 129
    expected = -(math.log2(start) + math.log2(middle) + math.log2(end)) / 2
    assert baselines.bigram_bits(small) == pytest.approx(expected, rel=1e-12)


def test_packed_files_can_be_unpacked(baselines):
    text = b"import os\n" * 50
    assert gzip.decompress(baselines.gzip_9(text)) == text
    assert lzma.decompress(baselines.xz_9(text)) == text


def test_packed_bits_include_headers(baselines, small):
    assert baselines.packed_bits(small.held_out, lambda content: content + b"head") == 8 * 6 / 2


def test_the_figures_of_this_python_are_plausible(baselines, example):
    found = baselines.held_out_bits(example("stdlib_corpus").load_corpus())
    assert 1.5 < found["xz -9"] < found["gzip -9"] < found["byte bigram"] < 4.5
