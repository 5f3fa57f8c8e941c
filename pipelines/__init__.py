"""The stages of the job, as wiring of the other rooms."""
