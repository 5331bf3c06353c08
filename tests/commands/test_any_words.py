"""Whatever is typed, the query commands answer with words and a code, never with an internal error."""

from __future__ import annotations

import io

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.commands.conftest import World

_OPTIONS = "-j -t -o -O -S -u -n -p -w -s -r -l -h -N -R -e -d -v -Q -f -b --start --me -A -q -M -L -P --noconvert --steps= --jobs="
_VALUES = (
    "1 4_2 4_[0-9] 4_[ 1.0 1.batch abc -1 0 99999999999999999999 PD R all BAD %i %.5 %all %-3i jobid jobid:5 n1 n[1-2] n[1 "
    "n[3-1] , ,, = : root 0 -t,i zz é 10:00 gpu debug idle mix ref local all_clusters [1-3] 4_1,4_2"
)
_VERBS = (
    "show hold release update requeue write errnumstr job jobs node partition step config hostnames hostlist licenses jobid=1 "
    "job=4 timelimit=5 starttime=now name=x batch_script details oneliner"
)
words = st.lists(st.sampled_from(f"{_OPTIONS} {_VALUES} {_VERBS}".split()) | st.text(max_size=6), max_size=6)


@pytest.mark.parametrize("program", ["squeue", "sinfo", "scontrol", "scancel", "sacct"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(argv=words)
@example(argv=["-é"])
@example(argv=["-j", "\udcff"])
def test_no_words_break_a_command(busy: World, program: str, argv: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO(""))
        patch.setattr("shim.commands.output.put", lambda lines: None)
        argv = [word.replace("\0", "") for word in argv if not word.startswith(("-i", "--it"))]
        result = busy.run(program, *argv)
    assert "internal error" not in result.err, (argv, result.err)
    assert result.code in (0, 1, 210)
