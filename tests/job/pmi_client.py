"""A task that speaks PMI by itself: ``pmi_client.py 1|2 [WHAT]``. Prints what it has read. Standard library only."""

import os
import socket
import sys

VERSION = int(sys.argv[1])
WHAT = sys.argv[2] if len(sys.argv) > 2 else ""
RANK, SIZE = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
connection = socket.socket(fileno=int(os.environ["PMI_FD"]))
stream = connection.makefile("rb")


def ask(line):
    """Sends a request as it is written in this version, and gives the answer's fields."""
    if VERSION == 1 or line.startswith("cmd=init "):
        connection.sendall(line.encode() + b"\n")
        text = stream.readline().decode().strip()
        return dict(word.partition("=")[::2] for word in text.split(" "))
    connection.sendall(b"%06d" % len(line.encode()) + line.encode())
    size = int(stream.read(6))
    text = b""
    while len(text) < size:
        text += stream.read(size - len(text))
    pairs = text.decode().replace(";;", "\0").split(";")
    return {name: value.replace("\0", ";") for name, _, value in (pair.partition("=") for pair in pairs) if name}


def exchange_1():
    assert ask("cmd=init pmi_version=1 pmi_subversion=1")["rc"] == "0"
    assert ask("cmd=get_maxes")["vallen_max"] == "1024"
    assert ask("cmd=get_universe_size")["size"] == str(SIZE)
    assert ask("cmd=get_appnum")["appnum"] == "-1"
    name = ask("cmd=get_my_kvsname")["kvsname"]
    if WHAT == "abort" and RANK == 1:
        connection.sendall(b"cmd=abort exitcode=3\n")
    if WHAT == "spawn":
        connection.sendall(b"mcmd=spawn\nnprocs=1\nexecname=true\nendcmd\n")
        print(stream.readline().decode().strip())
    assert (
        ask(f"cmd=put kvsname={name} key=k{RANK} value=of rank {RANK}" + "x" * int(WHAT or 0 if WHAT.isdigit() else 0))[
            "rc"
        ]
        == "0"
    )
    assert ask("cmd=barrier_in")["cmd"] == "barrier_out"
    found = [ask(f"cmd=get kvsname={name} key=k{rank}")["rc"] for rank in range(SIZE)]
    mapping = ask(f"cmd=get kvsname={name} key=PMI_process_mapping")["value"]
    missing = ask(f"cmd=get kvsname={name} key=nosuch")["rc"]
    assert ask("cmd=barrier_in")["cmd"] == "barrier_out"
    assert ask("cmd=finalize")["cmd"] == "finalize_ack"
    return [*found, mapping, missing]


def exchange_2():
    assert ask("cmd=init pmi_version=2 pmi_subversion=0")["pmi_version"] == "2"
    assert ask(f"cmd=fullinit;pmijobid=x;pmirank={RANK};threaded=FALSE;")["size"] == str(SIZE)
    assert ask("cmd=job-getid;")["jobid"] == os.environ["PMI_JOBID"]
    assert ask(f"cmd=kvs-put;key=k{RANK};value=a;;b=c {RANK};")["rc"] == "0"
    assert ask("cmd=kvs-fence;")["rc"] == "0"
    found = [ask(f"cmd=kvs-get;jobid=x;srcid=-1;key=k{rank};")["value"] for rank in range(SIZE)]
    mapping = ask("cmd=info-getjobattr;key=PMI_process_mapping;")["value"]
    missing = ask("cmd=kvs-get;jobid=x;srcid=-1;key=nosuch;")["found"]
    if os.environ["SLURM_LOCALID"] == "0":
        assert ask(f"cmd=info-putnodeattr;key=n;value={os.environ['SLURMD_NODENAME']};")["rc"] == "0"
    of_node = ask("cmd=info-getnodeattr;key=n;wait=TRUE;")["value"]
    assert of_node == os.environ["SLURMD_NODENAME"]
    assert ask("cmd=info-getnodeattr;key=nosuch;wait=FALSE;")["found"] == "FALSE"
    assert ask("cmd=kvs-fence;")["rc"] == "0"
    assert ask("cmd=finalize;")["rc"] == "0"
    return [*found, mapping, missing]


if WHAT == "nonsense":
    connection.sendall(b"hello\n")
    print(stream.read())
else:
    print(RANK, SIZE, *(exchange_1 if VERSION == 1 else exchange_2)(), sep="|")
