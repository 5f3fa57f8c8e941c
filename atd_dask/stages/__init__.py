"""The building blocks of the stages of a job."""
