from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, LocalCluster

from atd_dask.config.cluster_options import ClusterOptions, LocalOptions, TlsFiles
from atd_dask.distribution.engine import clients
from atd_dask.distribution.engine.clients import WORKER_TTL, _settings, check_client, connect
from atd_dask.errors import InputError, SchedulerError
from tests.clusters import local_client

SMALL = LocalOptions(workers=1, threads=1)


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The scheduler file of another process, which has one worker."""
    file = tmp_path_factory.mktemp("scheduler") / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file"]
    process = subprocess.Popen([*command, *options, str(file)], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 240
        while not file.exists() or not file.read_text().endswith("}"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield file
    finally:
        process.kill()
        process.wait()


def address_of(file: Path) -> str:
    address: str = json.loads(file.read_text())["address"]
    return address


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "TIMEOUT", 0.5)


@pytest.fixture(autouse=True)
def _no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)


def check_refused(match: str, cluster: ClusterOptions | None, scheduler: str | None = None) -> None:
    with (
        pytest.raises(SchedulerError, match=match) as caught,
        connect(cluster, scheduler),
    ):
        pytest.fail("there is no such cluster")
    assert len(str(caught.value).splitlines()) == 1


def test_a_cluster_on_this_machine(capfd: pytest.CaptureFixture[str]) -> None:
    with connect(ClusterOptions(local=LocalOptions(workers=1, threads=2))) as client:
        assert list(client.nthreads().values()) == [2]
        assert client.submit(os.getpid).result() != os.getpid()
        assert client.dashboard_link.startswith("http://127.0.0.1:")
        address = client.scheduler_info()["address"]
    host, port = address.removeprefix("tcp://").split(":")
    with pytest.raises(ConnectionRefusedError, match="refused"):
        socket.create_connection((host, int(port)))
    assert capfd.readouterr().err == ""


def test_auto_uses_every_cpu_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dask.system.CPU_COUNT", 6)

    def share_out(workers: int | str, threads: int | str) -> tuple[int, int]:
        _, kwargs = clients._local(LocalOptions(workers, threads))  # type: ignore[arg-type]
        return kwargs["n_workers"], kwargs["threads_per_worker"]

    assert share_out("auto", "auto") == (6, 1)
    assert share_out(1, "auto") == (1, 6)
    assert share_out(4, "auto") == (4, 1)
    assert share_out(10, "auto") == (10, 1)
    assert share_out("auto", 2) == (6, 2)


def test_the_order_of_places(scheduler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = address_of(scheduler)
    nowhere = ClusterOptions(address="tcp://127.0.0.1:1")
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:1")
    for cluster, option in (
        (nowhere, address),
        (ClusterOptions(address=address), None),
        (ClusterOptions(scheduler_file=str(scheduler)), None),
    ):
        with connect(cluster, option) as client:
            assert client.scheduler_info()["address"] == address
    with connect(ClusterOptions(local=SMALL)) as client:
        assert client.scheduler_info()["address"] != address
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", address)
    with connect() as client:
        assert client.scheduler_info()["address"] == address


def test_a_scheduler_of_others_stays(scheduler: Path) -> None:
    for _ in range(2):
        with connect(scheduler=address_of(scheduler)) as client:
            assert client.status == "running"


def test_a_class_of_the_user() -> None:
    kwargs = {"n_workers": 0, "processes": False, "dashboard_address": "127.0.0.1:0"}
    options = ClusterOptions(
        class_="distributed.LocalCluster", kwargs=kwargs, adapt={"minimum": 1, "maximum": 1}
    )
    with connect(options) as client:
        assert client.submit(sum, [1, 2]).result() == 3
        cluster = client.cluster
    assert isinstance(cluster, LocalCluster)
    assert cluster.status.name == "closed"


@pytest.mark.usefixtures("impatient")
def test_an_address_where_nobody_answers() -> None:
    address = "tcp://127.0.0.1:1"
    check_refused(f"got {address}: .*(Connection refused|no answer)", None, address)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1", "missing port"),
        ("nonsense", "missing port"),
        ("", "missing port"),
        ("tcp://127.0.0.1:many", "invalid literal"),
        ("other://127.0.0.1:1", "unknown address scheme"),
        ("tls://127.0.0.1:1", "TLS expects"),
    ],
)
def test_addresses_that_are_none(address: str, reason: str) -> None:
    check_refused(f"must answer at its address, got {address}: .*({reason})", None, address)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        check_refused("no answer within 0.5 seconds", ClusterOptions(address=address))


def test_the_address_of_a_worker() -> None:
    with connect(ClusterOptions(local=SMALL)) as client:
        (worker,) = client.nthreads()
        check_refused("a Worker answered", None, worker)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"address": 3}', "[" * 100_000, "\0"])
def test_malformed_scheduler_files(tmp_path: Path, content: str) -> None:
    file = tmp_path / "s.json"
    file.write_text(content)
    check_refused("must be JSON with the key address", ClusterOptions(scheduler_file=str(file)))


def test_missing_scheduler_file(tmp_path: Path) -> None:
    file = str(tmp_path / "none.json")
    check_refused(
        r"must be readable, got .*none\.json: No such file", ClusterOptions(scheduler_file=file)
    )


class Unaffordable(LocalCluster):
    def __init__(self, price: int) -> None:
        raise RuntimeError(f"{price} is too much")


@pytest.mark.parametrize(
    ("name", "kwargs", "reason"),
    [
        ("no_such_module.Cluster", {}, "can be imported, got no_such_module.Cluster: No module"),
        ("distributed.NoCluster", {}, "can be imported, got distributed.NoCluster: module"),
        ("Cluster", {}, "can be imported, got Cluster: Empty module name"),
        ("..Cluster", {}, "can be imported, got ..Cluster: "),
        ("builtins.dict", {}, r"a subclass of distributed\.deploy\.Cluster, got builtins\.dict"),
        ("builtins.len", {}, r"a subclass of distributed\.deploy\.Cluster, got builtins\.len"),
        ("os.system", {"command": "false"}, r"a subclass of .*, got os\.system"),
        (f"{__name__}.Unaffordable", {"price": 3}, "Unaffordable cannot be started: 3 is too much"),
    ],
)
def test_classes_that_do_not_start(name: str, kwargs: dict[str, object], reason: str) -> None:
    check_refused(reason, ClusterOptions(class_=name, kwargs=kwargs))


def test_what_was_started_is_closed_after_an_error() -> None:
    def fail() -> None:
        with connect(ClusterOptions(local=SMALL)) as client:
            started.append(client.cluster)
            raise RuntimeError("in the middle")

    started: list[Any] = []
    with pytest.raises(RuntimeError, match="in the middle"):
        fail()
    assert started[0].status.name == "closed"


def test_the_scheduler_goes_first(tmp_path: Path) -> None:
    """Closing a client whose scheduler has died takes no time and prints nothing."""
    program = f"""
import os, signal, subprocess, sys, time
from pathlib import Path
from typing import Any
from atd_dask.distribution.engine.clients import ClusterOptions, connect
file = Path({str(tmp_path / "s.json")!r})
process = subprocess.Popen(
    [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
     "--no-dashboard", "--scheduler-file", str(file)], stderr=subprocess.DEVNULL)
while not file.exists() or not file.read_text().endswith("}}"):
    time.sleep(0.05)
with connect(ClusterOptions(scheduler_file=str(file))) as client:
    process.kill()
    process.wait()
    while client.status == "running":
        time.sleep(0.05)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
def test_interruption_from_a_terminal_stops_this_process_alone() -> None:
    program = """
import os, time
from atd_dask.distribution.engine.clients import ClusterOptions, LocalOptions, connect
if __name__ == "__main__":
    try:
        with connect(ClusterOptions(local=LocalOptions(workers=1, threads=1))) as client:
            print(client.submit(os.getpid).result(), flush=True)
            time.sleep(240)
    except KeyboardInterrupt:
        print("stopped")
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            worker = int(process.stdout.readline())
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "stopped\n", "")
    with pytest.raises(ProcessLookupError, match="No such process"):
        os.kill(worker, 0)


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """A self-signed certificate, and its key."""
    pytest.importorskip("cryptography", reason="needs the extra tls")
    from distributed import Security

    security = Security.temporary()
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_text(security.tls_ca_file)
    (folder / "key.pem").write_text(security.tls_client_key)
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    return TlsFiles(ca=cert, cert=cert, key=key)


def test_tls(tls_files: TlsFiles) -> None:
    options = ClusterOptions(local=SMALL, security=tls_files)
    with connect(options) as client:
        address = client.scheduler_info()["address"]
        assert address.startswith("tls://")
        with connect(ClusterOptions(address=address, security=tls_files)) as other:
            assert other.submit(sum, [1, 2]).result() == 3
        check_refused("TLS expects", ClusterOptions(address=address))


def test_files_that_are_no_certificates(tmp_path: Path) -> None:
    file = tmp_path / "cert.pem"
    file.write_text("nothing")
    files = TlsFiles(ca=str(file), cert=str(file), key=str(file))
    check_refused("must answer at its address", ClusterOptions(address="tls://a:1", security=files))
    check_refused("cannot be started", ClusterOptions(local=SMALL, security=files))


def test_connect_inside_an_event_loop(scheduler: Path) -> None:
    """As in a notebook, whose thread runs an event loop."""

    async def ask() -> None:
        clients._check_scheduler(address_of(scheduler), None)

    asyncio.run(ask())


def test_what_a_killed_worker_leaves_is_not_told() -> None:
    script = """
import multiprocessing, os
from atd_dask.distribution.engine.clients import _run_tracker
_run_tracker()
assert "PYTHONWARNINGS" not in os.environ
left = multiprocessing.get_context("spawn").Semaphore()
os._exit(0)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=240, env=environment
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_client_that_gives_up_its_scheduler_leaves_it_to_us_to_say_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logger = logging.getLogger("distributed.client")
    batched = logging.getLogger("distributed.batched")
    with connect(ClusterOptions(local=SMALL)):
        logger.error("Failed to reconnect to scheduler after %.2f seconds, closing client", 10)
        logger.error("something else")
        batched.error("Batched Comm Closed %r", "tcp://127.0.0.1:1")
        batched.error("something deeper")
    told = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert told == ["something else", "something deeper"]
    assert logger.filters == batched.filters == []


def fail() -> None:
    raise OSError("no space is left")


def fail_on(client: Any) -> None:
    """Have a task fail, and the worker say more than that."""
    with pytest.raises(OSError, match="no space is left"):
        client.submit(fail, pure=False).result()
    client.run(logging.getLogger("distributed.core").error, "deep inside")
    client.run(logging.getLogger("tornado.application").error, "deeper")


LOCAL = {
    "local": ClusterOptions(local=SMALL),
    "class": ClusterOptions(
        class_="distributed.LocalCluster",
        kwargs={"n_workers": 1, "dashboard_address": "127.0.0.1:0"},
    ),
}


@pytest.mark.parametrize("options", LOCAL.values(), ids=LOCAL)
def test_workers_here_leave_it_to_us_to_say_what_failed(
    options: ClusterOptions, capfd: pytest.CaptureFixture[str]
) -> None:
    with connect(options) as client:
        fail_on(client)
        (pid,) = client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
        fail_on(client)  # on a worker that was started later
    assert capfd.readouterr().err == ""


def test_what_workers_here_log_is_shown_on_request(capfd: pytest.CaptureFixture[str]) -> None:
    with connect(LOCAL["local"], dask_logs=True) as client:
        fail_on(client)
    shown = capfd.readouterr().err
    assert "Compute Failed" in shown
    assert "deep inside" in shown


@pytest.mark.parametrize("key", ["distributed.logging", "logging"])
def test_workers_here_log_what_the_user_has_set(
    key: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with dask.config.set({key: {"distributed": "error"}}), connect(LOCAL["local"]) as client:
        fail_on(client)
    assert "deep inside" in capfd.readouterr().err


def test_threads_leave_it_to_us_to_say_what_failed() -> None:
    script = """
import logging
from atd_dask.distribution.engine.clients import connect_to_threads
with connect_to_threads() as client:
    error = client.submit(lambda: 1 / 0).exception()
logging.getLogger("distributed.core").error("heard again")
raise SystemExit(0 if isinstance(error, ZeroDivisionError) else 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.endswith("heard again")


def count_kept_profiles(dask_worker: Any) -> tuple[int, int]:
    """How many profiles a worker keeps, of all tasks and by the names of tasks."""
    return dask_worker.profile_history.maxlen, dask_worker.profile_keys_history.maxlen


def test_workers_here_look_at_themselves_less_often_unless_the_user_says_how_often() -> None:
    keys = list(clients.UPKEEP)
    mine = {"distributed.admin.tick.interval": "50ms"}
    before = [dask.config.get(key, None) for key in keys]
    with dask.config.set(mine), connect(ClusterOptions(local=SMALL)) as client:
        (there,) = client.run(lambda: {key: dask.config.get(key) for key in keys}).values()
        (keeps,) = client.run(os.environ.get, "MALLOC_TRIM_THRESHOLD_").values()
        (profiles,) = client.run(count_kept_profiles).values()
    assert there == clients.UPKEEP | mine
    assert profiles == (100, 100), "a worker must not grow for a quarter of an hour"
    assert keeps == str(2**26)
    assert [dask.config.get(key, None) for key in keys] == before


def test_a_class_that_takes_over_ctrl_c_on_import_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greedy_cluster.py").write_text(
        "import signal\nsignal.signal(signal.SIGINT, lambda *_: None)\nclass Cluster: pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    before = signal.getsignal(signal.SIGINT)
    with (
        pytest.raises(SchedulerError, match="must name a subclass"),
        connect(ClusterOptions(class_="greedy_cluster.Cluster")),
    ):
        pytest.fail("it is no cluster")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_silent_worker_is_given_up_after_a_minute_unless_another_time_is_set() -> None:
    with _settings(ClusterOptions()):
        assert dask.config.get(WORKER_TTL) == "60s"
    with _settings(ClusterOptions(worker_timeout=7)):
        assert dask.config.get(WORKER_TTL) == "7s"


def test_a_client_that_is_passed_must_be_one():
    async def check_another(address: str) -> None:
        async with Client(address, asynchronous=True) as client:
            check_client(client)

    check_client(None)
    with local_client(1) as client:
        check_client(client)
        with pytest.raises(
            InputError, match=r"must be a Client of dask\.distributed, got an async"
        ):
            asyncio.run(check_another(client.scheduler.address))
    with pytest.raises(InputError, match=r"must be a Client of dask\.distributed, got str"):
        check_client("tcp://127.0.0.1:8786")


def test_a_fork_of_a_process_that_has_used_threads_is_told():
    script = """if True:
        import os
        from atd_dask.distribution.engine.clients import connect_to_threads
        from atd_dask.errors import SchedulerError
        with connect_to_threads():
            pass
        with connect_to_threads():
            pass
        if os.fork() == 0:
            try:
                connect_to_threads().__enter__()
            except SchedulerError as error:
                print(error, flush=True)
            os._exit(0)
        os.wait()
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True
    )
    assert "forked" in done.stdout
    assert done.stdout.count("\n") == 1
