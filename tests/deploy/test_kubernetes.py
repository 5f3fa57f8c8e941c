"""The manifests against the schemas of the operator and of Kubernetes, and the program that applies
the job of a sweep, against a server that plays the API."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.commands import check_worker, parse
from tests.servers import running

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
dask_kubernetes = pytest.importorskip("dask_kubernetes", reason="needs the extra kubernetes")
kubernetes_validate = pytest.importorskip("kubernetes_validate")
VERSION = "1.32"


def read(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


@functools.cache
def read_schema(kind: str) -> dict[str, Any]:
    """The schema that the operator publishes for a kind, as one that refuses what it does not
    know; Kubernetes would drop that without a word."""
    charts = Path(dask_kubernetes.__file__).parent / "operator" / "deployment" / "helm"
    for path in charts.glob(f"*/crds/{kind.lower()}.yaml"):
        (version,) = yaml.load(path.read_text(), yaml.CSafeLoader)["spec"]["versions"]
        schema: dict[str, Any] = close(version["schema"]["openAPIV3Schema"])
        schema["properties"] |= {"apiVersion": {"type": "string"}, "kind": {"const": kind}}
        schema["properties"]["metadata"] = {"type": "object"}
        return schema
    raise AssertionError(f"no schema for {kind}")


def close(schema: Any) -> Any:
    if isinstance(schema, list):
        return [close(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: close(part) for key, part in schema.items()}
    if closed.pop("x-kubernetes-int-or-string", False):
        closed |= {"type": ["integer", "string"]}
        closed.pop("anyOf", None)
    keeps = closed.pop("x-kubernetes-preserve-unknown-fields", False)
    if isinstance(closed.get("properties"), dict) and closed.get("type") == "object" and not keeps:
        closed.setdefault("additionalProperties", False)
    return closed


def find_mistakes(manifest: dict[str, Any]) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(read_schema(manifest["kind"]))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(manifest)]


@pytest.mark.parametrize("name", ["cluster.yaml", "job.yaml"])
def test_manifests_follow_the_schemas_of_the_operator(name: str) -> None:
    (manifest,) = read(name)
    assert find_mistakes(manifest) == []


def test_the_schemas_do_look() -> None:
    (manifest,) = read("job.yaml")
    pod = manifest["spec"]["cluster"]["spec"]["worker"]["spec"]
    pod["restartPolicies"] = "Always"
    pod["containers"][0]["args"] = "dask worker"
    manifest["spec"]["cluster"]["spec"]["worker"]["replicas"] = "two"
    assert len(find_mistakes(manifest)) == 3


@pytest.mark.parametrize("name", ["data.yaml", "rbac.yaml", "sweep.yaml"])
def test_manifests_follow_the_schemas_of_kubernetes(name: str) -> None:
    for manifest in read(name):
        kubernetes_validate.validate(manifest, VERSION, strict=True)
        manifest["spek"] = {}
        with pytest.raises(kubernetes_validate.ValidationError, match="spek"):
            kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_what_the_operator_makes_of_them_is_sound() -> None:
    """The operator's own functions make the objects that it sends to Kubernetes."""
    controller = pytest.importorskip("dask_kubernetes.operator.controller.controller")
    (job,) = read("job.yaml")
    name = job["metadata"]["name"]
    cluster = job["spec"]["cluster"]["spec"]
    scheduler, worker = cluster["scheduler"], cluster["worker"]
    made = [
        controller.build_scheduler_deployment_spec(name, scheduler["spec"], {}, {}),
        controller.build_scheduler_service_spec(name, scheduler["service"], {}, {}),
        controller.build_worker_deployment_spec(
            f"{name}-default", "here", name, "1", worker["spec"], {}, {}
        ),
        controller.build_job_pod_spec(name, name, "here", job["spec"]["job"]["spec"], {}, {}),
    ]
    for manifest in made:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    labels = made[0]["spec"]["template"]["metadata"]["labels"]
    assert scheduler["service"]["selector"].items() <= labels.items()
    environment = made[3]["spec"]["containers"][0]["env"]
    assert [each["name"] for each in environment] == ["DASK_SCHEDULER_ADDRESS"]
    assert environment[0]["value"] == f"tcp://{name}-scheduler.here.svc.cluster.local:8786"


def test_both_clusters_are_the_same() -> None:
    (cluster,), (job,) = read("cluster.yaml"), read("job.yaml")
    text = json.dumps(job["spec"]["cluster"]["spec"])
    assert json.loads(text.replace("atd-dask-sweep", "atd-dask")) == cluster["spec"]


def test_the_commands_are_understood() -> None:
    (job,) = read("job.yaml")
    cluster = job["spec"]["cluster"]["spec"]
    pods = (cluster["scheduler"]["spec"], cluster["worker"]["spec"], job["spec"]["job"]["spec"])
    scheduler, worker, sweep = (pod["containers"][0] for pod in pods)
    assert parse(scheduler["args"])["dashboard_address"] == ":8787"
    check_worker(worker["args"])
    parse(sweep["args"])
    assert [pod["restartPolicy"] for pod in pods] == ["Always", "Always", "Never"]
    for container in (scheduler, worker):
        assert container["livenessProbe"]["httpGet"]["path"] == "/health"


def test_two_sweeps_are_kept_apart() -> None:
    (cron,) = read("sweep.yaml")
    assert cron["spec"]["concurrencyPolicy"] == "Forbid"
    (kustomization,) = read("kustomization.yaml")
    (generated,) = kustomization["configMapGenerator"]
    pod = cron["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["volumes"][0]["configMap"]["name"] == generated["name"]
    named = [Path(argument).name for argument in pod["containers"][0]["args"][1:]]
    assert sorted(named) == sorted(generated["files"]) == ["job.yaml", "submit.py"]
    account, role, binding = read("rbac.yaml")
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert binding["subjects"][0]["name"] == account["metadata"]["name"]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


class FakeApi(ThreadingHTTPServer):
    """Plays the API for one DaskJob, as far as submit.py asks, and refuses what its role does not
    allow. A job gets its statuses one after the other, each time that it is asked for."""

    def __init__(self, outcome: str, existing: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), FakeApiHandler)
        (_, role, _) = read("rbac.yaml")
        (rule,) = role["rules"]
        self.verbs = set(rule["verbs"])
        self.outcome = outcome
        self.job: dict[str, Any] | None = None
        self.log: list[str] = []
        if existing:
            self.job = read("job.yaml")[0]
        self.statuses = existing


class FakeApiHandler(BaseHTTPRequestHandler):
    server: FakeApi
    root = "/apis/kubernetes.dask.org/v1/namespaces/here/daskjobs"

    def do_GET(self) -> None:
        if self.path.startswith("/version"):
            self.answer(200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0"})
            return
        if self.path != f"{self.root}/atd-dask-sweep" or self.server.job is None:
            self.answer(404, {"kind": "Status", "code": 404, "message": "not found"})
            return
        statuses = self.server.statuses
        now = statuses.pop(0) if len(statuses) > 1 else statuses[0]
        self.answer(200, self.server.job | {"status": {"jobStatus": now} if now else {}})

    def do_POST(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == self.root
        assert self.server.job is None
        self.server.job = content
        self.server.statuses = ["", "JobCreated", "ClusterCreated", "Running", self.server.outcome]
        self.note("create")
        self.answer(201, content)

    def do_DELETE(self) -> None:
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert content["propagationPolicy"] == "Foreground"
        self.server.job = None
        self.note("delete")
        self.answer(200, {"kind": "Status", "status": "Success"})

    def note(self, verb: str) -> None:
        assert verb in self.server.verbs
        self.server.log.append(verb)

    def answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def serve(outcome: str, existing: list[str]) -> Iterator[FakeApi]:
    server = FakeApi(outcome, existing)
    with running(server):
        yield server


def submit(server: FakeApi, folder: Path) -> subprocess.CompletedProcess[str]:
    address = f"http://127.0.0.1:{server.server_address[1]}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "here"}}],
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    hasten = "import runpy, sys, time; wait = time.sleep; time.sleep = lambda s: wait(s / 100); "
    start = "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", hasten + start, FOLDER / "submit.py", FOLDER / "job.yaml"],
        env=os.environ | {"KUBECONFIG": str(folder / "kubeconfig")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize(
    ("existing", "outcome", "log", "status"),
    [
        ([], "Successful", ["create"], 0),
        ([], "Failed", ["create"], 1),
        (["Failed"], "Successful", ["delete", "create"], 0),
        (["Running", "Running", "Successful"], "Failed", [], 0),
    ],
    ids=["first", "fails", "after another", "while another is under way"],
)
def test_a_job_is_applied_and_waited_for(
    existing: list[str], outcome: str, log: list[str], status: int, tmp_path: Path
) -> None:
    with serve(outcome, existing) as server:
        done = submit(server, tmp_path)
    assert (done.returncode, server.log) == (status, log), done.stderr
    assert done.stdout == f"atd-dask-sweep: {outcome if log else 'Successful'}\n"
    if log:
        assert server.job is not None
        assert server.job["spec"] == read("job.yaml")[0]["spec"]


def test_the_class_of_a_configuration_reaches_the_operator(tmp_path: Path) -> None:
    """Where there is no Kubernetes, that is one sentence."""
    (tmp_path / "c.yaml").write_text("corpus: {dataset: synthetic}\n")
    kwargs = {"custom_cluster_spec": str(FOLDER / "cluster.yaml"), "quiet": True}
    cluster = {"class": "dask_kubernetes.operator.KubeCluster", "kwargs": kwargs}
    program = "from atd_dask.cli.command import main; main()"
    options = ["--connect", "c.yaml", "--set", f"cluster={json.dumps(cluster)}"]
    done = subprocess.run(
        [sys.executable, "-c", program, "validate", *options],
        cwd=tmp_path,
        env=os.environ | {"KUBECONFIG": str(tmp_path / "none")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert (
        "The Dask cluster dask_kubernetes.operator.KubeCluster cannot be started: " in done.stderr
    )
