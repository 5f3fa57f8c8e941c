"""What a user can ask for: the configuration, read from YAML and checked."""
