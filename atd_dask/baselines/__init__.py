"""The methods that the paper compares with, and some that see the whole batch.

Each scores how anomalous the documents of the test batch are. Methods without groups of their own
use those of an LDA. scikit-learn is used where it has an implementation, and imported on demand.
"""
