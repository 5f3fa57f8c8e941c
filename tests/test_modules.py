"""Every module has its tests where one would look."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"

# Modules that are declarations alone.
WITHOUT_LOGIC = {
    "config/cluster_options",  # dataclasses
    "config/key_rules",  # a table of rules, shown by conf/README.md
    "config/sweep_config",  # dataclasses
    "evaluation/paper",  # the figures of the paper
    "kernels/jit",  # decorators: whatever is compiled goes through them
    "version",
}

# Modules that one would not test by themselves, and the tests that run them.
TESTED_BY = {
    "bench/method_figures": "pipelines/test_reproduce.py",
    "bench/topic_learners": "bench/test_training_quality.py",
    "cli/bench_commands": "bench/test_detection_quality.py",
    "cli/calibrate_command": "pipelines/test_calibrate.py",
    "cli/common_options": "cli/test_command.py",
    "cli/reproduce_command": "pipelines/test_reproduce.py",
    "distribution/checkpointing": "distribution/test_detection.py",
    "distribution/cluster_search": "distribution/test_detection.py",
    "distribution/engine/graph": "distribution/test_grids.py",
    "distribution/engine/lazy_client": "pipelines/test_sweep.py",
    "distribution/engine/simulation": "bench/test_simulated_cluster.py",
    "distribution/rehearsal": "distribution/engine/test_warming.py",
    "distribution/replicates": "distribution/test_detection.py",
    "distribution/search_space": "distribution/test_shards.py",
    "distribution/vector_batches": "distribution/test_shards.py",
    "estimators/given": "test_finding.py",
    "evaluation/problem_documents": "evaluation/test_problems.py",
    "evaluation/problem_tables": "evaluation/test_problem_figures.py",
    "evaluation/trials": "pipelines/test_calibrate.py",
    "findings": "test_finding.py",
    "json_records": "test_result_types.py",
    "kernels/detection_rules": "config/test_rules.py",
    "kernels/fitters": "kernels/test_alternative.py",
    "kernels/next_document": "kernels/test_alternative.py",
    "kernels/topic_edits": "kernels/test_training.py",
    "kernels/workspaces": "kernels/test_training.py",
    "pipelines/bench": "bench/test_whole_job.py",
    "progress": "cli/test_outputs.py",
    "report/calibration_view": "report/test_view.py",
    "report/cluster_view": "report/test_view.py",
    "report/drawing": "report/test_charts.py",
    "report/page": "report/test_view.py",
    "report/paper_page": "pipelines/test_reproduce.py",
    "report/set_up_page": "pipelines/test_calibrate.py",
    "report/sources": "pipelines/test_report.py",
    "report/timeline": "report/test_history.py",
    "run_types": "cli/test_inspecting.py",
    "stages/batches": "pipelines/test_detect.py",
    "stages/checks": "cli/test_mistakes.py",
    "stages/corpus_making": "pipelines/test_ingest.py",
    "stages/null_model": "pipelines/test_train.py",
    "stages/reading": "pipelines/test_ingest.py",
    "stages/result_making": "pipelines/test_detect.py",
    "stages/run_record": "pipelines/test_run.py",
    "stages/score_file": "pipelines/test_detect.py",
    "stages/set_up_trials": "pipelines/test_calibrate.py",
    "stages/shown_texts": "pipelines/test_report.py",
    "stages/storing": "pipelines/test_ingest.py",
    "storage/detection_checkpoints": "pipelines/test_detect.py",
    "storage/order_checkpoints": "pipelines/test_train.py",
    "storage/runs": "cli/test_inspecting.py",
    "sweeps/alerting": "pipelines/test_sweep.py",
    "sweeps/assembly": "pipelines/test_sweep.py",
    "sweeps/repair": "chaos/test_damage.py",
    "sweeps/news": "pipelines/test_sweep.py",
    "sweeps/plan": "pipelines/test_sweep.py",
    "sweeps/retraining": "pipelines/test_sweep.py",
    "sweeps/state": "pipelines/test_sweep.py",
    "sweeps/summary": "pipelines/test_sweep.py",
    "sweeps/sweep_line": "pipelines/test_sweep.py",
    "text/guessing": "text/test_languages.py",
    "text/lexicon": "distribution/test_spooling.py",
    "text/options": "stages/test_text_settings.py",
    "text/readers/archives": "text/test_newsgroups.py",
    "text/readers/counted": "text/test_ldac.py",
    "text/readers/records": "text/test_jsonl.py",
    "text/readers/stamps": "sweeps/test_collecting.py",
}


def list_modules() -> list[str]:
    """Every module, by its path in the package; `pipelines` is one of its rooms."""
    package = [
        file.relative_to(ROOT / "atd_dask")
        for file in (ROOT / "atd_dask").rglob("*.py")
        if not file.is_relative_to(ROOT / "atd_dask" / "pipelines")
    ]
    pipelines = [file.relative_to(ROOT) for file in (ROOT / "pipelines").glob("*.py")]
    return sorted(
        file.with_suffix("").as_posix()
        for file in (*package, *pipelines)
        if file.name != "__init__.py"
    )


def find_tests(module: str) -> Path:
    """Where the tests of a module are: those of readers are in the room above."""
    path = Path(module.replace("text/readers/", "text/"))
    return TESTS / path.parent / f"test_{path.name}.py"


@pytest.mark.parametrize("module", list_modules())
def test_a_module_has_tests(module: str) -> None:
    if module in WITHOUT_LOGIC:
        return
    elsewhere = TESTED_BY.get(module)
    if elsewhere is not None:
        assert (TESTS / elsewhere).exists(), f"{elsewhere} is gone: where is {module} tested now?"
        return
    assert find_tests(module).exists(), f"{module} must have tests in {find_tests(module)}"


def test_the_lists_have_no_more_than_they_need() -> None:
    listed = {*WITHOUT_LOGIC, *TESTED_BY}
    assert listed <= set(list_modules())
    assert [module for module in sorted(listed) if find_tests(module).exists()] == []
