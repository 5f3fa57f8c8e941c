"""Everything that is kept: corpus stores, and later models, checkpoints and results."""
