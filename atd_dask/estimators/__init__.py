"""The model and the preparation of text, with the conventions of scikit-learn."""
