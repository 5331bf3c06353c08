"""The batch script: what is refused, and the grammar of directives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.core import script
from shim.core.errors import ShimError


def directives(body: str) -> list[list[str]]:
    return [words for _, words in script.directives("#!/bin/bash\n" + body, "job.sh")]


@pytest.mark.parametrize(
    "data, first",
    [
        (b"", "error: Batch script is empty!"),
        (b" \n\t\n", "error: Batch script contains only whitespace!"),
        (b"echo hi\n", "error: This does not look like a batch script.  The first"),
        (b"\n#!/bin/sh\n", "error: This does not look like a batch script.  The first"),
        (b"#!/bin/sh\r\necho\r\n", "error: Batch script contains DOS line breaks (\\r\\n)"),
        (b"#!/bin/sh\necho\r\n", "error: Batch script contains DOS line breaks (\\r\\n)"),
        (b"#!/bin/sh\necho \0\n", "error: The Slurm controller does not allow scripts that"),
    ],
)
def test_refused(data: bytes, first: str) -> None:
    with pytest.raises(ShimError) as refused:
        script.check(data)
    assert refused.value.lines[0] == first
    assert refused.value.code == 1


@pytest.mark.parametrize("data", [b"#!/bin/sh", b"#!/usr/bin/env python3\n\xff\n", b"#!/bin/sh\necho a\rb\n"])
def test_accepted(data: bytes) -> None:
    script.check(data)


@pytest.mark.parametrize(
    "line, words",
    [
        ("-J one", ["-J", "one"]),
        ("\t-J\ttabbed\t", ["-J", "tabbed"]),
        ("\v-n 4", ["-n", "4"]),
        ("-N 2 -t 3 --comment foo", ["-N", "2", "-t", "3", "--comment", "foo"]),
        ("--time=1 # note", ["--time=1"]),
        ("--comment=abc#def -t 1", ["--comment=abc"]),
        ("# note", []),
        ("", []),
        ("   ", []),
        ("-J one; #SBATCH -t 5", ["-J", "one;"]),
        ('-J "a b"', ["-J", "a b"]),
        ("--comment='c d \"e\"'", ['--comment=c d "e"']),
        ('--comment="it\'s # here"', ["--comment=it's # here"]),
        ('-J a"b c"d', ["-J", "ab cd"]),
        ("--image=repo\\#name", ["--image=repo#name"]),
        ('--comment="x\\"y"', ['--comment=x"y']),
        ("-J a\\ b", ["-J", "a", "b"]),
        ("-N 2 \\", ["-N", "2"]),
        ('-J "" -t 5', ["-J"]),
        ("-J $USER-$(date)", ["-J", "$USER-$(date)"]),
        ("--nodes\u00a0=2", ["--nodes\u00a0=2"]),
        ("--cpus-per-task= 3", ["--cpus-per-task=", "3"]),
    ],
)
def test_words(line: str, words: list[str]) -> None:
    assert script.split(line, "job.sh", 2) == words


@pytest.mark.parametrize(
    "line, text",
    [
        (' --comment="unterminated -J ab', 'Unmatched `"` in [--comment="unterminated -J ab]'),
        (' -J "job01', 'Unmatched `"` in [ "job01]'),
        (" -J 'job01", "Unmatched `'` in [ 'job01]"),
        (" : -n2", "Unexpected `:` in [: -n2]"),
    ],
)
def test_words_that_are_fatal(line: str, text: str) -> None:
    with pytest.raises(ShimError) as refused:
        script.split(line, "job.sh", 7)
    assert refused.value.lines == (f"fatal: job.sh: line 7: {text}",)
    assert refused.value.code == 1


@pytest.mark.parametrize(
    "body, expected",
    [
        (
            "#SBATCH -J one\n\n# note\n#SBATCH -t 5\n   \n#SBATCH -N 2\necho\n#SBATCH -n 3\n",
            [["-J", "one"], ["-t", "5"], ["-N", "2"]],
        ),
        ("##SBATCH -J a\n# SBATCH -J b\n #SBATCH -t 7\n#sbatch -n 1\n#SBATCH\n", [[]]),
        ("#SBATCH-J joined\n#SBATCHX\n", [["-J", "joined"], ["X"]]),
        ("cat <<X\n#SBATCH -J heredoc\nX\n", []),
        (": ;\n#SBATCH -N 2\n", []),
        ("#SBATCH -N 2 \\\n#SBATCH -n 4", [["-N", "2"], ["-n", "4"]]),
        ("\f\n#SBATCH -N 2", [["-N", "2"]]),
    ],
)
def test_which_lines_are_directives(body: str, expected: list[list[str]]) -> None:
    assert directives(body) == expected


def test_lines_are_numbered_from_one() -> None:
    assert [number for number, _ in script.directives("#!/bin/sh\n\n#SBATCH -N1\n#\n#SBATCH -n1", "x")] == [3, 5]


def test_wrap() -> None:
    assert script.wrapped("echo hi") == "#!/bin/sh\n# This script was created by sbatch --wrap.\n\necho hi\n"


@pytest.mark.parametrize(
    "name, expected",
    [
        ("/a/b.sh", []),
        ("./b.sh", []),
        (".b.sh", []),
        ("sub/b.sh", ["/w/sub/b.sh", "/usr/bin/sub/b.sh", "/bin/sub/b.sh"]),
        ("b.sh", ["/w/b.sh", "/usr/bin/b.sh", "/bin/b.sh"]),
    ],
)
def test_where_a_script_is_looked_for(name: str, expected: list[str]) -> None:
    assert list(script.candidates(name, "/w", "/usr/bin::.:/bin")) == expected


@given(st.binary(max_size=60))
def test_text_and_bytes_are_the_same(data: bytes) -> None:
    assert script.bytes_of(script.text_of(data)) == data


@given(
    st.binary(max_size=120)
    | st.lists(st.sampled_from([b"#SBATCH", b" ", b"'", b'"', b"\\", b"#", b"\n", b"-n", b"4", b"x", b":"])).map(
        b"".join
    )
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    text = script.text_of(b"#!/bin/sh\n" + data)
    try:
        script.check(script.bytes_of(text))
        for number, words in script.directives(text, "job.sh"):
            assert number > 1
            assert all(words)
    except ShimError as refused:
        assert refused.code == 1
        assert refused.lines[0].startswith(("error: ", "fatal: "))


@given(st.text(alphabet="ab-=:,# \"'\\\tx1", max_size=20))
def test_plain_lines_are_split_as_all_others(line: str) -> None:
    """A tab at the end means nothing, but keeps a line from being taken for a plain one."""

    def words(text: str) -> list[str] | str:
        try:
            return script.split(text, "x", 1)
        except ShimError as error:
            return error.lines[0].replace("\t", "")

    assert words(line) == words(line + "\t")
