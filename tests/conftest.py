from __future__ import annotations

from hypothesis import settings

settings.register_profile("project", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("project")
