"""#PBS and #BSUB directives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.errors import ShimError
from shim.core.options.batch import settle
from shim.core.options.foreign import foreign_directives
from shim.core.options.merge import Settings, read_line
from shim.core.options.values import Context


def words(*lines: str) -> list[list[str]]:
    return [found for _, found in foreign_directives("#!/bin/sh\n" + "\n".join(lines) + "\n", "job.sh")]


def no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def settings(header: str, argv: str = "", **environ: str) -> Settings:
    found, _ = read_line("sbatch", argv.split())
    return settle(Context(0.0, 1001, no_file), found, environ, "#!/bin/sh\n" + header, "job.sh")


@pytest.mark.parametrize(
    "line, expected",
    [
        ("#PBS -N name", ["--job-name=name"]),
        ("#PBS -l walltime=00:10:00", ["--time=00:10:00"]),
        ("#PBS -l nodes=2:ppn=2", ["--nodes=2", "--ntasks=4"]),
        ("#PBS -l nodes=a+b:ppn=3", ["--nodelist=a,b", "--ntasks=4"]),
        ("#PBS -l nodes=3,mem=4gb,walltime=1:0:0", ["--nodes=3", "--mem=4gb", "--time=1:0:0"]),
        ("#PBS -q short -A acct -o out -e err", ["--partition=short", "--account=acct", "--output=out", "--error=err"]),
        ("#PBS -m abe -M me@x", ["--mail-type=FAIL,BEGIN,END", "--mail-user=me@x"]),
        ("#PBS -h -V -j oe -S /bin/sh", ["--hold"]),
        ("#PBS -r n", ["--no-requeue"]),
        ("#PBS -r y", ["--requeue"]),
        ("#PBS -p -5", ["--nice=5"]),
        ("#PBS -t 0-3", ["--array=0-3"]),
        ("#PBS -W depend=afterok:5", ["--dependency=afterok:5"]),
        ("#PBS -W umask=027", []),
        ("#BSUB -J name -W 10 -n 4 -x", ["--job-name=name", "--time=10", "--ntasks=4", "--exclusive"]),
        ("#BSUB -q q -m n1 -M 100 # note", ["--partition=q", "--nodelist=n1", "--mem-per-cpu=100"]),
    ],
)
def test_in_the_words_of_sbatch(line: str, expected: list[str]) -> None:
    assert words(line) == [expected]


def test_the_first_system_is_the_one_that_is_read() -> None:
    assert words("#PBS -N a", "#BSUB -J b") == [["--job-name=a"]]
    assert words("#BSUB -J b", "#PBS -N a") == [["--job-name=b"]]


def test_with_the_other_sources() -> None:
    header = "#SBATCH -J slurm\n#PBS -N pbs\n#PBS -l walltime=20\ntrue\n#PBS -N late\n"
    assert settings(header).values == {"job-name": "pbs", "time": 20}
    assert settings(header, "-J mine").get("job-name") == "mine"
    assert settings(header, "--ignore-pbs").get("job-name") == "slurm"
    assert settings(header, SBATCH_IGNORE_PBS="1").get("job-name") == "slurm"


def test_an_unknown_option() -> None:
    with pytest.raises(ShimError) as refused:
        words("#PBS -Z")
    assert refused.value.lines[0] == "invalid option -- 'Z'"


@given(st.text(max_size=30), st.sampled_from(["#PBS ", "#BSUB "]))
def test_any_line_is_read_or_refused(text: str, magic: str) -> None:
    try:
        settings(magic + text.replace("\n", " ") + "\n")
    except ShimError as refused:
        assert refused.code in (1, 255)
