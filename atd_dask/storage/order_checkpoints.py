"""The state of a search over orders, as a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import NDArray

from atd_dask.kernels.model import Floats, Proportions, WordTable
from atd_dask.kernels.training import (
    OrderRange,
    OrderRecord,
    SelectionState,
    SkippedOrders,
    Start,
)
from atd_dask.kernels.word_switches import complete_table
from atd_dask.storage.checkpoints import Checkpoints

_TABLE = ("indptr", "topics", "probabilities")


def save_selection(checkpoints: Checkpoints, name: str, state: SelectionState) -> None:
    """Keeps a state; the shared model is not part of it."""
    arrays: dict[str, NDArray[Any]] = {}
    tables = {"table": state.table} | ({"best": state.best} if state.best is not None else {})
    tables |= {f"skipped{n}": orders.table for n, orders in enumerate(state.skipped)}
    for prefix, table in tables.items():
        arrays |= {f"{prefix}.{field}": getattr(table, field) for field in _TABLE}
    if state.start is not None:
        arrays["tokens"] = state.start.tokens
        arrays["anchors"] = state.start.anchors
        for field in ("indptr", "topics", "theta"):
            arrays[f"proportions.{field}"] = getattr(state.start.proportions, field)
    facts = {
        "topics": {prefix: table.n_topics for prefix, table in tables.items()},
        "iteration": state.iteration,
        "bic": None if math.isinf(state.bic) else state.bic,
        "records": [asdict(record) for record in state.records],
        "wider": None if state.wider is None else asdict(state.wider),
        "n_before": state.n_before,
        "skipped": [[orders.least, orders.index] for orders in state.skipped],
        "least": state.least,
        "again": state.again,
        "finished": state.finished,
    }
    checkpoints.save(name, facts, arrays)


def load_selection(checkpoints: Checkpoints, name: str, shared: Floats) -> SelectionState | None:
    """The state that was kept last, or None."""
    kept = checkpoints.load(name)
    if kept is None:
        return None
    facts, arrays = kept

    def table(prefix: str) -> WordTable:
        columns = (arrays[f"{prefix}.{field}"] for field in _TABLE)
        return complete_table(facts["topics"][prefix], shared, *columns)

    start = None
    if "tokens" in arrays:
        proportions = Proportions(
            *(arrays[f"proportions.{field}"] for field in ("indptr", "topics", "theta"))
        )
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
        again=facts["again"],
        finished=facts["finished"],
    )


@dataclass(frozen=True)
class OrderCheckpointer:
    """Keeps the states of a training's restarts: after every order, and now and then in between.

    When is a matter of time; what comes of it is not.
    """

    checkpoints: Checkpoints
    seconds_between: float = 10.0

    def load(self, restart: int, shared: Floats) -> SelectionState | None:
        return load_selection(self.checkpoints, _name(restart), shared)

    def keep(self, restart: int) -> Callable[[SelectionState], None]:
        n_orders = -1
        last = time.monotonic()

        def keep(state: SelectionState) -> None:
            nonlocal n_orders, last
            now = time.monotonic()
            if len(state.records) != n_orders or now - last >= self.seconds_between:
                save_selection(self.checkpoints, _name(restart), state)
                n_orders, last = len(state.records), now

        return keep


def _name(restart: int) -> str:
    return f"restart-{restart}"
