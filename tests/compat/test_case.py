"""Case files: sections, and what is wrong with one that is not understood."""

from __future__ import annotations

import pytest

from compat.case import CaseError, load, parse_case

TEXT = """\
# What it shows,
# on two lines.
=== file job.sh
#!/bin/bash
true

=== run
run sbatch job.sh
=== sort
out.txt  stdout:*
=== replace
^a(b) => \\1
gone =>
=== differs local
Because of
something.
"""


def test_sections() -> None:
    case = parse_case("one", TEXT)
    assert case.title == "What it shows, on two lines."
    assert case.files == {"job.sh": "#!/bin/bash\ntrue\n"}
    assert case.script == "run sbatch job.sh\n"
    assert case.sort == ["out.txt", "stdout:*"]
    assert [pattern.sub(to, "ab gone") for pattern, to in case.replace] == ["b gone", "ab "]
    assert case.differs == {"local": "Because of something."}
    assert case.expected.name == "one.txt"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("=== run\ntrue\n", "a comment that says what it shows"),
        ("# Title.\n", "a section 'run'"),
        ("# Title.\n=== run\ntrue\n=== nosuch\n", "line 4: not understood: nosuch"),
        ("# Title.\n=== file\n=== run\ntrue\n", "line 2: not understood: file"),
        ("# Title.\n=== run\ntrue\n=== replace\nno arrow\n", "no ' => ' in 'no arrow'"),
        ("# Title.\n=== run\ntrue\n=== replace\n( => x\n", "section at line 4: '('"),
    ],
)
def test_what_is_wrong_is_named(text: str, said: str) -> None:
    with pytest.raises(CaseError, match="one: ") as raised:
        parse_case("one", text)
    assert said in str(raised.value)


def test_the_suite_is_complete() -> None:
    cases = load()
    assert len(cases) >= 40
    assert [case.name for case in cases if not case.expected.exists()] == []


def test_a_case_that_is_not_there() -> None:
    with pytest.raises(CaseError, match="no such case: nosuch"):
        load(["hello", "nosuch"])
