"""The image and the compose file, as far as they can be checked without an engine."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.deploy.commands import check_worker, parse

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "docker"


@pytest.fixture
def services() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    services: dict[str, Any] = content["services"]
    return services


@pytest.mark.skipif(not shutil.which("hadolint"), reason="needs hadolint")
def test_hadolint_has_nothing_to_say_against_the_dockerfile() -> None:
    done = subprocess.run(
        ["hadolint", "--no-color", str(FOLDER / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_is_pinned_and_has_a_user_of_its_own() -> None:
    lines = (FOLDER / "Dockerfile").read_text().splitlines()
    bases = {line.split()[1] for line in lines if line.startswith("FROM ")}
    assert len(bases) == 1
    assert len(bases.pop().partition("@sha256:")[2]) == 64
    assert [line for line in lines if line.startswith("USER ")] == ["USER 10001"]


def test_the_image_is_built_from_all_that_the_package_needs() -> None:
    ignored = (FOLDER / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert kept == {
        "LICENSE",
        "README.md",
        "atd_dask",
        "deploy/docker/requirements.txt",
        "pipelines",
        "pyproject.toml",
    }
    assert all((FOLDER.parents[1] / name).exists() for name in kept)


EXTRAS = ("dashboard", "kubernetes", "metrics", "parquet", "s3", "segmentation")


def test_every_package_of_the_image_is_pinned_by_hash() -> None:
    project = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text())["project"]
    text = (FOLDER / "requirements.txt").read_text().replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in lines)
    pinned = {}
    for line in lines:
        requirement = Requirement(line.partition(" --hash")[0].strip())
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        pinned[canonicalize_name(requirement.name)] = pin.version
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for name in EXTRAS for each in extras[name])]
    for requirement in map(Requirement, [*wanted, "setuptools>=77"]):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)])
    dockerfile = (FOLDER / "Dockerfile").read_text()
    assert "--require-hashes --requirement requirements.txt" in dockerfile
    assert "--no-deps --no-build-isolation ." in dockerfile


def test_the_compose_file_follows_the_specification() -> None:
    check_jsonschema = pytest.importorskip("check_jsonschema", reason="needs check-jsonschema")
    jsonschema = pytest.importorskip("jsonschema")
    vendored = Path(check_jsonschema.__file__).parent / "builtin_schemas" / "vendor"
    schema = json.loads((vendored / "compose-spec.json").read_text())
    content = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(content)] == []
    content["services"]["worker"]["restarts"] = "always"
    assert list(validator.iter_errors(content)) != [], "the schema does look"


def test_whatever_serves_is_always_started_again(services: dict[str, Any]) -> None:
    restarts = {name: service["restart"] for name, service in services.items()}
    assert restarts == {"scheduler": "always", "worker": "always", "sweep": "no"}
    assert services["worker"]["deploy"]["replicas"] == 2
    assert services["sweep"]["profiles"] == ["sweep"], "it does not start with the others"


def test_the_commands_are_understood(services: dict[str, Any]) -> None:
    scheduler = parse(services["scheduler"]["command"])
    address = services["sweep"]["environment"]["DASK_SCHEDULER_ADDRESS"]
    assert address == f"tcp://scheduler:{scheduler['port']}"
    check_worker(services["worker"]["command"])
    assert parse(services["worker"]["command"])["scheduler"] == address
    parse(services["sweep"]["command"])
    for name, port in (("scheduler", 8787), ("worker", 8788)):
        assert f":{port}/health" in services[name]["healthcheck"]["test"][-1]
