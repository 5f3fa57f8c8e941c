"""What a user meets: command line, configuration, progress."""
