"""The life of a run, whose start is decided by one write.

A job's record (a ConfigMap) carries a register for its run number n:

    made ──► granted(nonce, members) ──► over
      └────► withdrawn

**Invariant.** For one record and one n the register only ever moves along these arrows, whoever writes it and whatever is lost, late or
repeated. Only the process that made the granted nonce launches run n, and once. Run n+1 is made only behind the fence: when run n
was withdrawn, or when it is over and there is evidence that no process of it lives.

Pure: ``register.py`` (the register, what is answered), ``evidence.py`` (what is seen, and what it proves), ``decide.py`` (what is done next).
``driver.py`` carries that out for one job: ``course.py`` follows a leader, ``starting.py`` watches a start, ``looking.py`` reads evidence live.
The leader's half is ``shim.job.pod.asking``. docs/internals/kubernetes-start.md has the proof; tests/control/backends/kubernetes/run/ looks for a schedule
of faults that breaks it.
"""
