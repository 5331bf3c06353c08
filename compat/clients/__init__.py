"""Real client programs: what they are, and what each is asked to do."""
