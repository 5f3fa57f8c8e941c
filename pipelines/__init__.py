"""The stages of the job: they only wire the other packages together."""
