"""Checkpoints of the selection of an order."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from numpy.typing import NDArray

from atd_dask.errors import InputError
from atd_dask.json_records import JsonObject
from atd_dask.kernels.model import Floats, Proportions, WordTable
from atd_dask.kernels.passes import ComputedProportions, HeldProportions, Start
from atd_dask.kernels.training import OrderRange, OrderRecord, SelectionState, SkippedOrders
from atd_dask.kernels.word_switches import complete_table
from atd_dask.storage.checkpoints import Checkpoints

_TABLE = ("indptr", "topics", "probabilities")
_ACTIVE = ("indptr", "topics", "theta")
_SIDES = {"a": "b", "b": "a"}


@dataclass(frozen=True)
class SavedProportions:
    """Proportions in checkpoints, one for each block. It is sent to workers."""

    checkpoints: Checkpoints
    name: str

    def has_part(self, start: int) -> bool:
        return self.checkpoints.load(f"{self.name}-{start}") is not None

    def part(self, start: int, stop: int) -> Proportions:
        kept = self.checkpoints.load(f"{self.name}-{start}")
        if kept is None:
            raise InputError(
                f"the checkpoint of documents {start} to {stop} in {self.checkpoints.url} is"
                " missing or damaged: start again"
            )
        return Proportions(*(kept[1][field] for field in _ACTIVE))

    def save_part(self, start: int, part: Proportions) -> None:
        arrays = {field: getattr(part, field) for field in _ACTIVE}
        self.checkpoints.save(f"{self.name}-{start}", {}, arrays)


def save_selection(
    checkpoints: Checkpoints, name: str, state: SelectionState, side: str = "a"
) -> None:
    """Save a state, without the shared model. Proportions on workers are saved by them under the
    name of a `side`; the other side has those of the last state, which stays complete."""
    blocks: list[int] = []
    arrays: dict[str, NDArray[Any]] = {}
    tables = {"table": state.table.read()} | (
        {"best": state.best} if state.best is not None else {}
    )
    tables |= {f"skipped{n}": orders.table for n, orders in enumerate(state.skipped)}
    for prefix, table in tables.items():
        arrays |= {f"{prefix}.{field}": getattr(table, field) for field in _TABLE}
    if state.start is not None:
        arrays["tokens"] = state.start.tokens
        arrays["anchors"] = state.start.anchors
        proportions = state.start.proportions
        if isinstance(proportions, Proportions):
            arrays |= {f"proportions.{field}": getattr(proportions, field) for field in _ACTIVE}
        else:
            # Those of a checkpoint are replaced by a pass before the next one is saved.
            assert isinstance(proportions, ComputedProportions)
            blocks = proportions.save(SavedProportions(checkpoints, f"{name}-{side}").save_part)
    facts: JsonObject = {
        "side": side,
        "blocks": blocks,
        "topics": {prefix: table.n_topics for prefix, table in tables.items()},
        "iteration": state.iteration,
        "bic": None if math.isinf(state.bic) else state.bic,
        "records": [asdict(record) for record in state.records],
        "wider": None if state.wider is None else asdict(state.wider),
        "n_before": state.n_before,
        "skipped": [[orders.least, orders.index] for orders in state.skipped],
        "least": state.least,
        "n_splits": state.n_splits,
        "again": state.again,
        "finished": state.finished,
    }
    checkpoints.save(name, facts, arrays)


def load_selection(checkpoints: Checkpoints, name: str, shared: Floats) -> SelectionState | None:
    """Return the state that was saved last, or None."""
    kept = checkpoints.load(name)
    if kept is None:
        return None
    facts, arrays = kept

    def table(prefix: str) -> WordTable:
        columns = (arrays[f"{prefix}.{field}"] for field in _TABLE)
        return complete_table(facts["topics"][prefix], shared, *columns)

    start = None
    if "tokens" in arrays:
        proportions: Proportions | HeldProportions
        if "proportions.indptr" in arrays:
            proportions = Proportions(*(arrays[f"proportions.{field}"] for field in _ACTIVE))
        else:
            proportions = SavedProportions(checkpoints, f"{name}-{facts['side']}")
            if not all(map(proportions.has_part, facts["blocks"])):
                return None
        start = Start(proportions, arrays["tokens"], arrays["anchors"])
    return SelectionState(
        table=table("table"),
        iteration=facts["iteration"],
        start=start,
        bic=math.inf if facts["bic"] is None else facts["bic"],
        records=tuple(OrderRecord(**record) for record in facts["records"]),
        best=table("best") if "best" in facts["topics"] else None,
        wider=None if facts["wider"] is None else OrderRange(**facts["wider"]),
        n_before=facts["n_before"],
        skipped=tuple(
            SkippedOrders(table(f"skipped{n}"), *numbers)
            for n, numbers in enumerate(facts["skipped"])
        ),
        least=facts["least"],
        n_splits=facts.get("n_splits", 0),
        again=facts["again"],
        finished=facts["finished"],
    )


@dataclass(frozen=True)
class OrderCheckpointer:
    """Saves the states of a training's restarts: after every order, and every few seconds in
    between.

    When states are saved depends on time; the result does not.
    """

    checkpoints: Checkpoints
    seconds_between: float = 10.0
    suffix: str = ""

    def of_sample(self) -> OrderCheckpointer:
        """Keeps the states of a search in a sample beside those of the search in all documents."""
        return replace(self, suffix="-sample")

    def load(self, restart: int, shared: Floats) -> SelectionState | None:
        return load_selection(self.checkpoints, self._name(restart), shared)

    def keep(self, restart: int) -> Callable[[SelectionState], None]:
        name = self._name(restart)
        n_orders = -1
        last = time.monotonic()
        kept = self.checkpoints.load(name)
        side = "b" if kept is None else kept[0]["side"]

        def keep(state: SelectionState) -> None:
            nonlocal n_orders, last, side
            now = time.monotonic()
            if len(state.records) != n_orders or now - last >= self.seconds_between:
                side = _SIDES[side]
                save_selection(self.checkpoints, name, state, side)
                n_orders, last = len(state.records), now

        return keep

    def _name(self, restart: int) -> str:
        return f"restart-{restart}{self.suffix}"
