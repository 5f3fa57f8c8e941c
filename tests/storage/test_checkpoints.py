"""Whatever happens to a checkpoint, it is read back as it was saved or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atd_dask.kernels.training import SPLITS, OrderRange, SelectionState
from atd_dask.storage import checkpoints as checkpoints_module
from atd_dask.storage import order_checkpoints as orders_module
from atd_dask.storage.checkpoints import Checkpoints
from atd_dask.storage.order_checkpoints import OrderCheckpointer, load_selection, save_selection
from tests.kernels.cluster_search import watch_search
from tests.kernels.strategies import make_block

FACTS = {"iteration": 3, "bic": 1550803.123456789, "names": ["é", "b"], "none": None}
ARRAYS = {
    "theta": np.array([0.1, 1 / 3, 5e-324]),
    "topics": np.array([3, 1], np.int32),
    "table.indptr": np.zeros(0, np.int64),
}


def check_same(kept: Any, expected: Any) -> None:
    """Equal to the last bit, with the same types."""
    assert type(kept) is type(expected)
    if isinstance(expected, np.ndarray):
        assert (kept.dtype, kept.shape) == (expected.dtype, expected.shape)
        assert kept.tobytes() == expected.tobytes()
    elif is_dataclass(expected):
        for field in fields(expected):
            check_same(getattr(kept, field.name), getattr(expected, field.name))
    elif isinstance(expected, tuple):
        assert len(kept) == len(expected)
        for one, other in zip(kept, expected, strict=True):
            check_same(one, other)
    else:
        assert kept == expected


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_a_piece_is_read_as_it_was_kept(tmp_path: Path, scheme: str) -> None:
    checkpoints = Checkpoints(f"{scheme}{tmp_path}/pieces", "key")
    assert checkpoints.load("a") is None
    checkpoints.save("a", FACTS, ARRAYS)
    checkpoints.save("b", {}, {})
    kept = checkpoints.load("a")
    assert kept is not None
    facts, arrays = kept
    assert facts == FACTS
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        check_same(arrays[name], array)
    assert checkpoints.load("b") == ({}, {})
    checkpoints.save("a", {"iteration": 4}, {})
    assert checkpoints.load("a") == ({"iteration": 4}, {})


def test_a_piece_of_another_key_is_absent(tmp_path: Path) -> None:
    Checkpoints(str(tmp_path), "key").save("a", FACTS, ARRAYS)
    assert Checkpoints(str(tmp_path), "other").load("a") is None
    assert Checkpoints(str(tmp_path), "ke").load("a") is None
    assert Checkpoints(str(tmp_path), "key").load("a") is not None


def test_a_piece_of_another_format_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints = Checkpoints(str(tmp_path), "key")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints_module, "FORMAT", b"atd-dask-checkpoint/2\n")
        checkpoints.save("a", FACTS, ARRAYS)
        assert checkpoints.load("a") is not None
    assert checkpoints.load("a") is None


def damages(content: bytes) -> Iterator[bytes]:
    for position in range(0, len(content), 7):
        wrong = bytearray(content)
        wrong[position] ^= 1 << (position % 8)
        yield bytes(wrong)
    for size in range(0, len(content), 61):
        yield content[:size]
    yield content[:-1]
    yield content + b"\0"


def test_any_damage_makes_a_piece_absent(tmp_path: Path) -> None:
    checkpoints = Checkpoints(str(tmp_path), "key")
    checkpoints.save("a", FACTS, ARRAYS)
    (path,) = tmp_path.iterdir()
    content = path.read_bytes()
    for wrong in damages(content):
        path.write_bytes(wrong)
        assert checkpoints.load("a") is None
    path.write_bytes(content)
    assert checkpoints.load("a") is not None


@pytest.mark.parametrize("scheme", ["", "memory://"])
def test_all_pieces_are_forgotten_whatever_their_key(tmp_path: Path, scheme: str) -> None:
    url = f"{scheme}{tmp_path}/pieces"
    first, second = Checkpoints(url, "key"), Checkpoints(url, "other")
    first.clear()
    first.save("a", FACTS, ARRAYS)
    second.save("b", FACTS, ARRAYS)
    first.clear()
    assert first.load("a") is None
    assert second.load("b") is None
    first.save("a", FACTS, ARRAYS)
    assert first.load("a") is not None


@pytest.fixture(scope="module")
def states() -> list[SelectionState]:
    """A search from its first pass to its end."""
    counts = np.random.default_rng(3).poisson(1.2, (30, 12))
    counts[:15, :6] += 3
    iterations, _ = watch_search(make_block(counts), 12, OrderRange(4, 2))
    return [iterations[0].previous, *(step.state for step in iterations)]


def test_every_state_of_a_search_is_read_as_it_was_kept(
    tmp_path: Path, states: list[SelectionState]
) -> None:
    checkpoints = Checkpoints(str(tmp_path), "key")
    shared = states[0].table.shared
    assert load_selection(checkpoints, "s", shared) is None
    for state in states:
        save_selection(checkpoints, "s", state)
        check_same(load_selection(checkpoints, "s", shared), state)
    assert states[-1].finished
    assert states[-1].n_splits == SPLITS
    assert {state.start is None for state in states} == {True, False}


def test_a_state_without_splits_is_read_as_one_before_them(
    tmp_path: Path, states: list[SelectionState]
) -> None:
    """That is how states were kept when no topics were split."""
    first = next(state for state in states if state.records)
    assert first.n_splits == 0
    checkpoints = Checkpoints(str(tmp_path), "key")
    save_selection(checkpoints, "s", first)
    kept = checkpoints.load("s")
    assert kept is not None
    facts, arrays = kept
    del facts["n_splits"]
    checkpoints.save("s", facts, arrays)
    check_same(load_selection(checkpoints, "s", first.table.shared), first)


def test_a_state_is_kept_after_every_order_and_now_and_then(
    tmp_path: Path, states: list[SelectionState], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    saved: list[SelectionState] = []
    monkeypatch.setattr(orders_module.time, "monotonic", lambda: now)
    monkeypatch.setattr(
        orders_module, "save_selection", lambda *arguments: saved.append(arguments[2])
    )
    keep = OrderCheckpointer(Checkpoints(str(tmp_path), "key"), seconds_between=10).keep(0)
    for state in states:
        keep(state)
    assert [len(state.records) for state in saved] == [0, *range(1, len(states[-1].records) + 1)]
    assert saved[0] is states[0]
    assert saved[-1] is states[-1]
    saved.clear()
    now = 9.9
    keep(states[-1])
    assert saved == []
    now = 10.1
    keep(states[-1])
    keep(states[-1])
    assert saved == [states[-1]]


def test_restarts_are_kept_apart(tmp_path: Path, states: list[SelectionState]) -> None:
    checkpointer = OrderCheckpointer(Checkpoints(str(tmp_path), "key"))
    checkpointer.keep(0)(states[0])
    checkpointer.keep(1)(states[-1])
    shared = states[0].table.shared
    check_same(checkpointer.load(0, shared), states[0])
    check_same(checkpointer.load(1, shared), states[-1])
    assert checkpointer.load(2, shared) is None
