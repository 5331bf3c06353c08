"""#PBS and #BSUB directives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core.errors import ShimError
from shim.core.options.batch import settle
from shim.core.options.pbs_lsf import foreign_directives
from shim.core.options.sources import Settings, read_line
from shim.core.options.values import Context


def words(*lines: str) -> list[str]:
    return foreign_directives("#!/bin/sh\n" + "\n".join(lines) + "\n", "job.sh")


def no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def settings(header: str, argv: str = "", **environ: str) -> Settings:
    found, _ = read_line("sbatch", argv.split())
    text = "#!/bin/sh\n" + header
    return settle(Context(0.0, 1001, no_file), [found], environ, text, "job.sh", lambda settings: settings)[0]


@pytest.mark.parametrize(
    "line, expected",
    [
        ("#PBS -N name", ["--job-name=name"]),
        ("#PBS -l walltime=00:10:00", ["--time=00:10:00"]),
        ("#PBS -l nodes=2:ppn=2", ["--nodes=2", "--ntasks=4"]),
        ("#PBS -l nodes=n1+n2:ppn=3", ["--nodelist=n[1-2]", "--ntasks=3"]),
        ("#PBS -l nodes=n1:ppn=2+n2:ppn=3", ["--nodelist=n[1-2]", "--ntasks=5"]),
        ("#PBS -l nodes=2:ppn=2+1:ppn=3", ["--nodes=3", "--ntasks=15"]),
        ("#PBS -l nodes=3:gpus=2:ppn=2", ["--gpus-per-node=2", "--nodes=3", "--ntasks=6"]),
        (
            "#PBS -l select=1:ncpus=2:mpiprocs=2",
            ["--nodes=1", "--mincpus=2", "--ntasks-per-node=2", "--cpus-per-task=1"],
        ),
        ("#PBS -l naccelerators=2,pmem=1gb,proc=f", ["--gres=gpu:2", "--constraint=f"]),
        ("#PBS -v A=1,B", ["--export=A=1,B"]),
        ("#PBS -l nodes=3,mem=4gb,walltime=1:0:0", ["--nodes=3", "--mem=4gb", "--time=1:0:0"]),
        ("#PBS -q short -A acct -o out -e err", ["--partition=short", "--account=acct", "--output=out", "--error=err"]),
        ("#PBS -m abe -M me@x", ["--mail-type=FAIL,BEGIN,END", "--mail-user=me@x"]),
        ("#PBS -h -V -j oe -S /bin/sh", ["--hold"]),
        ("#PBS -r n", []),
        ("#PBS -p -5", ["--nice=-5"]),
        ("#PBS -t 0-3", ["--array=0-3"]),
        ("#PBS -W depend=afterok:5", ["--dependency=afterok:5"]),
        ("#PBS -W umask=027", []),
        ("#BSUB -J name -W 10 -n 4 -x", ["--job-name=name", "--time=10", "--ntasks=4", "--exclusive"]),
        ("#PBS --job_name=a --resource_list walltime=9 --hold --all_env", ["--job-name=a", "--time=9", "--hold"]),
        ("#BSUB -cwd /tmp -n 2,4", ["--chdir=/tmp", "--ntasks=4"]),
        ("#BSUB --output=o --queue_name q --exclusive", ["--output=o", "--partition=q", "--exclusive"]),
        ("#BSUB -q q -m n1 -M 100 # note", ["--partition=q", "--nodelist=n1", "--mem-per-cpu=100K"]),
    ],
)
def test_in_the_words_of_sbatch(line: str, expected: list[str]) -> None:
    assert words(line) == expected


def test_a_script_is_of_lsf_or_of_pbs() -> None:
    assert words("#PBS -N a", "#BSUB -J b") == words("#BSUB -J b", "#PBS -N a") == ["--job-name=b"]
    assert words("#PBS -N a", "#BSUB") == []


def test_lines_are_one_command_line_wherever_they_stand() -> None:
    assert words("#PBS -N", "echo x", "#PBS foo") == ["--job-name=foo"]
    assert words("#PBS -l select=1:ncpus=8:mpiprocs=2") == [
        "--nodes=1",
        "--mincpus=8",
        "--ntasks-per-node=2",
        "--cpus-per-task=4",
    ]
    assert settings("#SBATCH --gres=nvme:1\n#PBS -l naccelerators=2\n").get("gres") == "nvme:1,gpu:2"


def test_with_the_other_sources() -> None:
    header = "#SBATCH -J slurm\n#PBS -N pbs\n#PBS -l walltime=20\ntrue\n#PBS -N late\n"
    assert settings(header).values == {"job-name": "late", "time": 20}
    assert settings(header, "-J mine").get("job-name") == "mine"
    assert settings(header, "--ignore-pbs").get("job-name") == "slurm"
    assert settings(header, SBATCH_IGNORE_PBS="1").get("job-name") == "slurm"
    assert settings(header, SBATCH_IGNORE_PBS="0").get("job-name") == "late"


@pytest.mark.parametrize(
    "line, lines",
    [
        ("#PBS -Z", ("invalid option -- 'Z'", "error: Unrecognized command line parameter ?")),
        ("#BSUB -R x", ("invalid option -- 'R'", "error: Unrecognized command line parameter ?")),
        ("#PBS -N x foo", ("error: Invalid argument: foo",)),
        ("#PBSX", ("error: Invalid argument: X",)),
    ],
)
def test_what_cannot_be_read(line: str, lines: tuple[str, ...]) -> None:
    with pytest.raises(ShimError) as refused:
        words(line)
    assert (refused.value.lines, refused.value.code) == (lines, 1)


@given(st.text(max_size=30), st.sampled_from(["#PBS ", "#BSUB "]))
def test_any_line_is_read_or_refused(text: str, magic: str) -> None:
    try:
        settings(magic + text.replace("\n", " ") + "\n")
    except ShimError as refused:
        assert refused.code in (1, 255)
