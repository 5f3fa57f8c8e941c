"""Documents of a newcomer: normal ones on four subjects, and a batch with a fifth in a few.

Writes them into the current folder as JSON lines, as CSV and as folders of text files.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

SUBJECTS = (
    "engine wheel brake tyre gear road driver clutch petrol motor garage exhaust",
    "flour butter sugar oven bake cake dough cream vanilla pastry recipe kitchen",
    "match goal league striker keeper penalty coach stadium referee pitch fans season",
    "stock market shares profit bond dividend investor bank fund yield broker index",
)
UNUSUAL = "volcano lava eruption ash crater magma plume seismic evacuate tremor smoke island"
USUAL = "today people thing great small large place time week report many first last other again"

N_NORMAL, N_BATCH, N_UNUSUAL = 400, 120, 15


def write_text(chance: random.Random, subject: str) -> str:
    words = chance.choices(subject.split(), k=20) + chance.choices(USUAL.split(), k=20)
    return " ".join(chance.sample(words, len(words)))


def make_documents() -> dict[str, list[dict[str, str]]]:
    """Both parts; ids of documents on the unusual subject begin with `unusual`."""
    chance = random.Random(1)
    subjects = {
        "normal": [SUBJECTS[d % 4] for d in range(N_NORMAL)],
        "batch": [UNUSUAL if d < N_UNUSUAL else SUBJECTS[d % 4] for d in range(N_BATCH)],
    }
    return {
        part: [
            {
                "id": f"{'unusual' if subject == UNUSUAL else part}-{number}",
                "text": write_text(chance, subject),
            }
            for number, subject in enumerate(mine)
        ]
        for part, mine in subjects.items()
    }


def main() -> None:
    for part, documents in make_documents().items():
        lines = [json.dumps(document) for document in documents]
        Path(f"{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        with Path(f"{part}.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, ["id", "text"])
            table.writeheader()
            table.writerows(documents)
        folder = Path(part)
        folder.mkdir()
        for document in documents:
            (folder / f"{document['id']}.txt").write_text(document["text"], encoding="utf-8")


if __name__ == "__main__":
    main()
