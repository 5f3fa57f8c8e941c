from __future__ import annotations

import os

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
