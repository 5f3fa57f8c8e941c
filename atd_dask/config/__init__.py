"""The configuration, read from YAML and checked."""
