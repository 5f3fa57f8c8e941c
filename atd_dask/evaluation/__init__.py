"""The metrics and tables of the paper."""
