"""`shim top`: the queue, the nodes and one job, as they are at this moment.

gather, real   what is known      index, real Slurms -> a Snapshot
listing, page  what is shown      Snapshot, State, size -> lines of text and styles; no I/O
keys           what keys do       State, key -> State, and what is to be done
draw           how it is shown    lines -> what a terminal obeys, text, a picture
terminal       the screen         the terminal as it is used, and as it was before
watch          when to look       told by the kernel: writes to the index, the controller's end, growth of a file
helpers        what is done       Slurm's own commands, in processes of their own
run            all of it          the loop
"""

from __future__ import annotations
