"""The methods that the paper compares with, one module each."""
