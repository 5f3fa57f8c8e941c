"""The notebook for newcomers does what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

NOTEBOOK = Path(__file__).parents[1] / "conf" / "first-look.ipynb"


def test_it_is_stored_without_traces():
    """It has neither outputs nor details of the machine that ran it last."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert nbformat.validate(nbformat.from_dict(notebook)) is None


class Listener(nbclient.NotebookClient):
    """Executes a notebook, and records what a displayed line said."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.lines = []

    def process_message(self, msg, cell, cell_index):
        if msg["msg_type"] == "update_display_data":
            self.lines.append(msg["content"]["data"]["text/plain"])
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """The notebook with its outputs, run by this Python; the folder that it worked in; and what was
    shown meanwhile."""
    folder = tmp_path_factory.mktemp("first-look")
    notebook = nbformat.read(NOTEBOOK, 4)
    client = Listener(notebook, timeout=600, resources={"metadata": {"path": str(folder)}})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(folder / name.lower()))
        client.create_kernel_manager()
        kernel = client.km
        client.execute()
    assert kernel.ip == "127.0.0.1"
    assert not kernel.has_kernel
    return notebook, folder, client.lines


def read_outputs(notebook, name):
    (cell,) = (cell for cell in notebook.cells if cell.id == name)
    return cell.outputs


def test_it_finds_the_group_that_was_put_in(executed):
    notebook, folder, _ = executed
    new = {"rash", "bites", "bedbugs", "insects", "allergy", "pharmacy"}
    *_, result = read_outputs(notebook, "find")
    assert "15 documents about" in result.data["text/plain"]
    assert "<mark " in result.data["text/html"]
    (clusters,) = read_outputs(notebook, "clusters")
    assert clusters.name == "stdout"
    assert len(new & set(clusters.text.replace(",", "").split())) >= 3
    (frame,) = read_outputs(notebook, "frame")
    assert frame.data["text/html"].count("<tr") == 1 + 15
    (scores,) = read_outputs(notebook, "scores")
    assert scores.data["text/html"].count("<tr") == 1 + 20
    assert "<html" in (folder / "first-look.html").read_text(encoding="utf-8")
    *_, members = read_outputs(notebook, "pandas")
    assert members.data["text/html"].count("guest-") == 15


def test_progress_is_a_line_that_is_gone_at_the_end(executed):
    notebook, _, lines = executed
    assert "detect: looking in the batch for groups of documents with an unusual topic" in lines
    assert any(line.startswith("read train: done, 600 documents") for line in lines)
    for name in ("find", "pandas"):
        line, result = read_outputs(notebook, name)
        assert line.output_type == "display_data"
        assert line.data == {"text/plain": ""}
        assert result.output_type == "execute_result"
