"""What becomes of jobs: pure functions from (job, event, now) to jobs. The controller commits and acts on what they say."""
