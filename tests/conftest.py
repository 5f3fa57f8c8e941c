from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile

from hypothesis import HealthCheck, settings

# Neither Hypothesis nor Dask is to say that a busy machine is slow.
settings.register_profile(
    "project",
    deadline=None,
    derandomize=True,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
os.environ["DASK_DISTRIBUTED__ADMIN__TICK__LIMIT"] = "1h"
settings.load_profile("project")
# A shell makes what it starts in the background ignore Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Where Python may not keep bytecode, as in many containers, each of the many processes that tests
# start would compile the sources of all that it imports. They share a folder instead.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", "") and "PYTHONPYCACHEPREFIX" not in os.environ:
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="atd-dask-bytecode-")
    atexit.register(shutil.rmtree, os.environ["PYTHONPYCACHEPREFIX"], ignore_errors=True)
