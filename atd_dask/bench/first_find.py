"""Measures the time to the first answer: a script of five lines that calls `find()`, in a new
process each time, with a cold and a warm cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from atd_dask.bench.usage import Row, Usage, measure, spread
from atd_dask.errors import AtdError
from atd_dask.evaluation.generated import Planted, Shape, generate_documents
from atd_dask.kernels.streams import open_stream

if TYPE_CHECKING:
    from atd_dask.progress import Progress

PLANTED = Planted("planted", size=20, share=0.6)
SCRIPT = """\
import json, sys
import atd_dask
normal, batch = json.load(sys.stdin)
found = atd_dask.find(normal, batch, progress=False)
print(found)
"""


def bench_find(n_normal: int, n_batch: int, repeats: int, progress: Progress) -> list[Row]:
    """Measure with an empty cache folder, a new one each time, and again with the filled one."""
    documents = json.dumps(draw_strings(n_normal, n_batch))
    runs: dict[str, list[Usage]] = {"cold": [], "warm": []}
    said: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory(prefix="atd-dask-bench-") as folder,
        progress.task("find", 2 * repeats, "runs") as task,
    ):
        for number in range(repeats):
            cache = Path(folder, f"cache-{number}")
            for what in ("cold", "warm"):
                usage, said[what] = _find(documents, cache)
                runs[what].append(usage)
                task.advance(1, what=what, seconds=usage.seconds)
    return [
        {
            "what": what,
            "runs": repeats,
            "seconds": spread([usage.seconds for usage in of], 1),
            "cpu_seconds": spread([usage.cpu_seconds for usage in of], 1),
            "answer": said[what],
        }
        for what, of in runs.items()
    ]


def draw_strings(n_normal: int, n_batch: int, seed: int = 1) -> tuple[list[str], list[str]]:
    """Draw normal documents, and a batch whose last documents share a new topic."""
    n_planted = min(PLANTED.size, n_batch // 4)
    planted = [Planted(PLANTED.label, n_planted, PLANTED.share)]
    shape = Shape(n_train=n_normal)
    n_ordinary = n_normal + n_batch - n_planted
    block, _ = generate_documents(seed, "bench/find", shape, n_ordinary, planted)
    words = _name_words(seed, shape.n_words)
    texts = [
        " ".join(words[term] for term in np.repeat(block.terms[span], block.counts[span]).tolist())
        for span in map(slice, block.indptr[:-1].tolist(), block.indptr[1:].tolist())
    ]
    return texts[:n_normal], texts[n_normal:]


def _name_words(seed: int, n_words: int) -> list[str]:
    """Make distinct words of four syllables, none of which ends in an English suffix."""
    stream = open_stream(seed, "bench/find/words")
    syllables = [a + b for a in "bdfgkmnprtvz" for b in "aou"]
    numbers = stream.choice(len(syllables) ** 4, n_words, replace=False).tolist()
    n = len(syllables)
    return [
        "".join(syllables[number // n**place % n] for place in range(4)) + "k" for number in numbers
    ]


def _find(documents: str, cache: Path) -> tuple[Usage, str]:
    """Run the script, and return its usage of resources and its output."""
    with measure() as usage:
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=documents,
            capture_output=True,
            encoding="utf-8",
            env={**os.environ, "ATD_DASK_CACHE": str(cache)},
            check=False,
        )
    if ended.returncode != 0:
        raise AtdError(f"the script failed: {ended.stderr.strip()}")
    return usage, ended.stdout.strip()
