"""Every task sends its rank to task 0, which adds them up and sends the sum to all. See distributed.sh."""

import os
import socket
import time

RANK = int(os.environ["SLURM_PROCID"])
SIZE = int(os.environ["SLURM_NTASKS"])
MEETING_POINT = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))


def receive_number(connection: socket.socket) -> int:
    """One number and a line end, however the network cuts them."""
    with connection.makefile() as lines:
        return int(lines.readline())


def lead() -> int:
    """Task 0: wait for the others, add, tell them."""
    with socket.create_server(MEETING_POINT, reuse_port=False) as server:
        peers = [server.accept()[0] for _ in range(SIZE - 1)]
        total = RANK + sum(receive_number(peer) for peer in peers)
        for peer in peers:
            peer.sendall(b"%d\n" % total)
            peer.close()
    return total


def follow() -> int:
    """The other tasks: task 0 may not listen yet, so try for a while."""
    end = time.monotonic() + 60
    while True:
        try:
            connection = socket.create_connection(MEETING_POINT, timeout=60)
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    with connection:
        connection.sendall(b"%d\n" % RANK)
        return receive_number(connection)


result = lead() if RANK == 0 else follow()
print(f"rank {RANK} of {SIZE} on {os.environ['SLURMD_NODENAME']}: the sum of all ranks is {result}", flush=True)
