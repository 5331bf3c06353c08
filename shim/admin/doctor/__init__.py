"""`shim doctor`: tries, rather than reads about, what jobs need; says what is lost without it."""

GOOD, NOTE, BAD = "ok", "note", "FAIL"  # the verdict of a finding
Finding = tuple[str, str]  # its verdict, and what was found
