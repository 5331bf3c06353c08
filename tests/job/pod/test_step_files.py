"""Files that an srun opens in a copy of the working directory: they are followed as the script's own output is."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable

from tests.job.pod.pods import Controller, Pods

Maker = Callable[..., Pods]


def _nothing() -> bytes:
    buffer = io.BytesIO()
    tarfile.open(fileobj=buffer, mode="w:gz").close()
    return buffer.getvalue()


def test_files_of_steps_go_out_as_the_script_s_output_does(pods: Maker) -> None:
    job = pods(
        nodes=2,
        staged=True,
        script="""#!/bin/sh
srun -N1 -o one.txt echo first
srun -N2 -n2 -o 'each.%t.%N.%s.%j' sh -c 'echo task $SLURM_PROCID'
cat each.*
srun -N1 -o one.txt echo second
srun -N1 -o one.txt --open-mode=append echo third
echo 'of the script' >> one.txt
srun -N1 -o .hidden echo hidden
while [ ! -e go ]; do sleep 0.1; done
""",
    )
    job.archive = _nothing()
    job.start_all()
    one = Controller(job)
    one.send("watch", after=0, files=True)
    rounds: dict[str, int] = {}

    def ask() -> None:
        for told in one.all("file"):
            if rounds.get(told["stream"], -1) < told["round"]:
                rounds[told["stream"]] = told["round"]
                one.files[told["stream"]] = b""
                one.send("output", stream=told["stream"], after=0, round=told["round"])

    def here() -> bool:
        ask()
        return sorted(one.files.values()) == [b"second\nthird\nof the script\n", b"task 0\n", b"task 1\n"]

    one.until(lambda: (ask(), rounds.get("1") == 1)[1], "the file is begun anew")
    (job.work_dir / "go").touch()
    one.until(lambda: (ask(), len(one.all("output-end")) == 3)[1], "the end of all files")
    assert here()
    names = {told["stream"]: told["path"].rpartition("/")[2] for told in one.all("file")}
    assert sorted(names.values()) == ["each.0.slurm-7-0.1.7", "each.1.slurm-7-1.1.7", "one.txt"]
    assert {told["mode"] for told in one.all("file")} == {0o644}
    one.send("forget")
    assert job.ended() == 0
    assert (job.work_dir / ".hidden").read_text() == "hidden\n"
    one.close()
    assert job.out.read_text().splitlines()[:2] == ["task 0", "task 1"]
