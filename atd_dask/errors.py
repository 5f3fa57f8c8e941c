"""One family of errors.

The class decides the exit status of the command: a `UserError` is something the user can mend and
ends with 2; every other failure ends with 1. A message is one sentence that names the rule, the
value that broke it and the place to mend it.
"""

from __future__ import annotations

from collections.abc import Sequence


class AtdError(Exception):
    """Any failure that this package reports on purpose."""


class UserError(AtdError, ValueError):
    """The configuration or an input is wrong."""


class ConfigError(UserError):
    """A configuration that breaks one or more rules; `problems` has a sentence for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[tuple[str, ...]]]:
        return type(self), (self.problems,)


class InputError(UserError):
    """A document file, a label file, a vocabulary or a store that cannot be used as it is."""


class TooLittleTrainingError(InputError):
    """A batch that is too large for the normal documents that it is to be compared with."""


class SchedulerError(UserError):
    """The Dask cluster that the configuration names cannot be reached or started."""


class ClusterError(AtdError):
    """The cluster, its memory or a disk gave out while a job was using it."""


class DamagedStoreError(AtdError, OSError):
    """Bytes of a store are not the ones that were written."""
