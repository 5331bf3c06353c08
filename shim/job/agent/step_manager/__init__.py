"""The steps of a run, as its leader keeps them: laid out, queued, launched, relayed, ended."""
