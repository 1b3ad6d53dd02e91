"""What other ways of predicting or packing the held-out files of ByteGPT reach, in bits per byte.

`python examples/baselines.py` prints them; with a run id (or `last`) the model's own figure stands beside them.
"""

from __future__ import annotations

import gzip
import lzma
import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from stdlib_corpus import Corpus, SourceFile, join, load_corpus

NUM_BYTES = 256


def bigram_bits(corpus: Corpus) -> float:
    """Bits per byte of the best next-byte table: counts of the training files, smoothed by half an occurrence.

    Every byte of a held-out file is predicted from the byte before it, the first from the separator. The
    end of each file is predicted too and its cost is charged, as it is to ByteGPT.

    Source: additive smoothing by 1/2 (Krichevsky and Trofimov 1981, IEEE Trans. Inf. Theory 27(2)).
    """
    log_probability = _bigram_counts(join(corpus.train)).add(0.5)
    log_probability = (log_probability / log_probability.sum(dim=1, keepdim=True)).log2()
    text = join(corpus.held_out)
    bits = -(_bigram_counts(text) * log_probability).sum().item()
    return bits / num_bytes(corpus.held_out)


def _bigram_counts(text: bytes) -> torch.Tensor:
    """float64 of shape (256, 256): how often the second byte follows the first."""
    codes = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    pairs = codes[:-1] * NUM_BYTES + codes[1:]
    return torch.bincount(pairs, minlength=NUM_BYTES**2).view(NUM_BYTES, NUM_BYTES).double()


def packed_bits(files: tuple[SourceFile, ...], pack: Callable[[bytes], bytes]) -> float:
    """Bits per byte when each file is packed by itself, headers included."""
    return 8 * sum(len(pack(file.content)) for file in files) / num_bytes(files)


def num_bytes(files: tuple[SourceFile, ...]) -> int:
    """Size of the files together; separators are not counted.

    Examples:
        >>> num_bytes((SourceFile("a.py", b"x=1"),))
        3
    """
    return sum(len(file.content) for file in files)


def gzip_9(content: bytes) -> bytes:
    """As `gzip -9`, by Python's gzip module with level 9 and without a file name in the header."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def xz_9(content: bytes) -> bytes:
    """As `xz -9`, by Python's lzma module with preset 9."""
    return lzma.compress(content, preset=9)


def held_out_bits(corpus: Corpus) -> dict[str, float]:
    """Name to bits per byte, all on the same held-out files; gzip and xz pack each file by itself."""
    return {
        "byte bigram": bigram_bits(corpus),
        "gzip -9": packed_bits(corpus.held_out, gzip_9),
        "xz -9": packed_bits(corpus.held_out, xz_9),
    }


def model_bits(run: str, runs: Path = Path(".hemostat/runs")) -> tuple[str, float]:
    """(run id, last recorded bits per byte) of a run of ByteGPT.

    Args:
        run: a run id, its beginning, or "last".
        runs: folder of all runs.
    """
    from hemostat.track import load_run

    record = load_run(runs, run)
    values = [value for _, _, value in record.metrics("val_bits_per_byte")]
    return record.id, values[-1] if values else math.nan


def table(rows: dict[str, float]) -> str:
    """One line for each row, the longest text first.

    Examples:
        >>> print(table({"xz": 2.16, "bigram": 3.6}))
        bigram                        3.600 bits per byte
        xz                            2.160 bits per byte
    """
    ordered = sorted(rows.items(), key=lambda row: -row[1])
    return "\n".join(f"{name:<28} {bits:>6.3f} bits per byte" for name, bits in ordered)


def main(arguments: list[str]) -> None:
    """Print the table for the held-out files of this Python."""
    corpus = load_corpus()
    rows = held_out_bits(corpus)
    if arguments:
        run_id, bits = model_bits(arguments[0])
        rows[f"ByteGPT {run_id}"] = bits
    print(f"held out: {len(corpus.held_out)} files, {num_bytes(corpus.held_out):,} bytes; training: ", end="")
    print(f"{len(corpus.train)} files, {num_bytes(corpus.train):,} bytes")
    print(table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
