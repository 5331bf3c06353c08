"""What may become of a job: pure transitions over the model, with the clock as an argument."""
