"""What the stages of a job are made of."""
