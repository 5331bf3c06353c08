"""MPI tasks that find each other: an allreduce and a ring. ``abort``: one of them ends all."""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
left = world.sendrecv(world.rank, (world.rank + 1) % world.size, source=(world.rank - 1) % world.size)
print(f"{world.rank} of {world.size}: sum {total}, from {left}", flush=True)
if sys.argv[1:] == ["abort"]:
    if world.rank == 1:
        world.Abort(3)
    world.barrier()
