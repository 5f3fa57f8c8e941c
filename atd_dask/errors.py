"""The exceptions of this package.

The class decides the exit status of the command: 2 for a `UserError`, which the user can fix, and 1
for every other failure. A message is one sentence that names the rule, the value that broke it and
where to fix it.
"""

from __future__ import annotations

from collections.abc import Sequence


class AtdError(Exception):
    """Base class of the errors that this package raises."""


class UserError(AtdError, ValueError):
    """The configuration or an input is wrong: a `ConfigError` if a setting breaks a rule, an
    `InputError` if documents cannot be used, a `SchedulerError` if there is no cluster."""


class ConfigError(UserError):
    """A configuration that breaks one or more rules, with a sentence for each in `problems`."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class InputError(UserError):
    """An unusable document file, label file, vocabulary or store."""


class TooLittleTrainingError(InputError):
    """A batch that is too large for the number of normal documents."""


class SchedulerError(UserError):
    """The Dask cluster that the configuration names cannot be reached or started."""


class ClusterError(AtdError):
    """The cluster, its memory or a disk gave out while a job was using it."""


class OutageError(ClusterError):
    """A disk behind a network, or an object store, does not answer."""


class DamagedStoreError(AtdError, OSError):
    """The bytes of a store differ from those that were written."""
