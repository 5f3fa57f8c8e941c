"""Everything that is kept on disk: corpus stores, models, checkpoints, locks and results."""
