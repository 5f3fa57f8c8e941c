"""Scheduled sweeps over a repository that grows."""
