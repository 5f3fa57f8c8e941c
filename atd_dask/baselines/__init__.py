"""The methods that the paper compares with, a file for each, and some that know the batch.

They say how anomalous each document of the test batch is; those that cannot tell groups by
themselves are given the groups of an LDA. scikit-learn does what it has; it is loaded when it is
needed.
"""
