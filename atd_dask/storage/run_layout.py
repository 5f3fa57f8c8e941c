"""The locations of everything in an output folder."""

from __future__ import annotations

from dataclasses import dataclass

from atd_dask.storage.atomic_files import join
from atd_dask.storage.locations import Location


@dataclass(frozen=True)
class RunLayout:
    """The paths in the folder of a run, or of sweeps.

    Examples
    --------
    >>> RunLayout("runs/reuters").corpus("test")
    'runs/reuters/corpus/test.zarr'
    >>> RunLayout("runs/daily").sweep(3).report
    'runs/daily/sweeps/0003/report.html'
    """

    folder: str

    def corpus(self, part: str) -> str:
        """The store of a part of the corpus."""
        return join(self.folder, "corpus", f"{part}.zarr")

    def texts(self, part: str = "test") -> str:
        """The texts of a part, if they are kept."""
        return join(self.folder, "corpus", f"{part}-texts.zarr")

    @property
    def model(self) -> str:
        """The null model."""
        return join(self.folder, "null_model.zarr")

    def stage_note(self, stage: str) -> str:
        """The note of a finished stage."""
        return join(self.folder, "stages", f"{stage}.json")

    def checkpoints(self, stage: str) -> str:
        """The folder for the checkpoints of a stage."""
        return join(self.folder, "checkpoints", stage)

    def searches(self, n_docs: int) -> str:
        """The folder for searches in held-out batches of this size."""
        return join(self.folder, "searches", str(n_docs))

    @property
    def result(self) -> str:
        return join(self.folder, "result.json")

    @property
    def documents(self) -> str:
        """The table of the documents in clusters."""
        return join(self.folder, "clusters.csv")

    @property
    def scores(self) -> str:
        return join(self.folder, "scores.json")

    @property
    def report(self) -> str:
        return join(self.folder, "report.html")

    @property
    def record(self) -> str:
        """The record of the run."""
        return join(self.folder, "run.json")

    def repeat(self, number: int) -> RunLayout:
        """A repeat of the detection, from 1."""
        return RunLayout(join(self.folder, "repeats", str(number)))

    @property
    def calibration(self) -> RunLayout:
        """The trials of a set-up on its own normal documents."""
        return RunLayout(join(self.folder, "calibration"))

    @property
    def figures(self) -> str:
        """The figures of these trials."""
        return join(self.folder, "calibration.json")

    @property
    def figures_page(self) -> str:
        return join(self.folder, "calibration.html")

    # In a folder of sweeps.

    def sweep(self, number: int) -> RunLayout:
        """A sweep: the folder of a run, with a plan, a line and an alert."""
        return RunLayout(join(self.folder, "sweeps", _name_sweep(number)))

    def model_run(self, generation: int) -> RunLayout:
        """The run that trained a null model."""
        return RunLayout(join(self.folder, "models", f"{generation:04d}"))

    @property
    def state(self) -> str:
        return join(self.folder, "state.json")

    @property
    def journal(self) -> str:
        return join(self.folder, "journal")

    @property
    def history(self) -> str:
        """A line for each sweep."""
        return join(self.folder, "history.jsonl")

    @property
    def history_page(self) -> str:
        return join(self.folder, "index.html")

    # In the folder of a sweep.

    def neighbour(self, number: int) -> RunLayout:
        """Another sweep in the same folder."""
        return RunLayout(Location.of(self.folder).sibling(_name_sweep(number)).url)

    @property
    def plan(self) -> str:
        return join(self.folder, "plan.json")

    @property
    def line(self) -> str:
        """The line of a sweep in the history."""
        return join(self.folder, "sweep.json")

    @property
    def alert(self) -> str:
        return join(self.folder, "alert.json")

    def relative(self, path: str) -> str:
        """Return a path relative to the folder."""
        return path.removeprefix(join(self.folder, ""))


def _name_sweep(number: int) -> str:
    return f"{number:04d}"
