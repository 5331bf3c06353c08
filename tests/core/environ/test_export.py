"""--export of sbatch and of srun; PATH."""

from __future__ import annotations

import pytest

from shim.core.environ.export import apply_export, completed, prepend_path, step_export

SUBMIT = {"PATH": "/submit", "HOME": "/home/bob", "FOO": "envfoo", "MYV": "myval", "SLURM_NTASKS": "7", "LANG": "C"}
LOGIN = {"PATH": "/login", "HOME": "/home/bob", "MAIL": "/var/mail/bob"}
ONLY = {**LOGIN, "SLURM_NTASKS": "7", "SLURM_GET_USER_ENV": "1"}


@pytest.mark.parametrize("text", [None, "ALL", "all"])
def test_everything_by_default(text):
    assert apply_export(SUBMIT, text, LOGIN) == SUBMIT


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("ALL,FOO=1", {"FOO": "1"}),
        ("ALL,FOO=a=b", {"FOO": "a=b"}),
        ("FOO=2,ALL", {"FOO": "2"}),
        ("ALL,NOSUCH", {}),
        ('ALL,FOO="a,b"', {"FOO": '"a,b"'}),
    ],
)
def test_everything_and_more(text, named):
    expected = {"MAIL": "/var/mail/bob", **SUBMIT, **named, "SLURM_EXPORT_ENV": text, "SLURM_GET_USER_ENV": "1"}
    assert apply_export(SUBMIT, text, LOGIN) == expected


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("NONE", {}),
        ("none", {}),
        ("NIL", {}),
        ("", {}),
        ("FOO", {"FOO": "envfoo"}),
        ("FOO=2,MYV", {"FOO": "2", "MYV": "myval"}),
        ('FOO="a,b",MYV=3', {"FOO": '"a,b"', "MYV": "3"}),
        ("MYV,NONE", {"MYV": "myval"}),
        ("NOSUCH", {}),
        ("PATH", {"PATH": "/submit"}),
        ("EMPTY=", {"EMPTY": ""}),
    ],
)
def test_only_what_is_named(text, named):
    assert apply_export(SUBMIT, text, LOGIN) == {**ONLY, **named, "SLURM_EXPORT_ENV": text}


def test_get_user_env_adds_the_login():
    found = apply_export(SUBMIT, None, LOGIN, get_user_env=True)
    assert found == {**SUBMIT, "MAIL": "/var/mail/bob", "SLURM_GET_USER_ENV": "1"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, SUBMIT),
        ("ALL", SUBMIT),
        ("ALL,FOO=3", {**SUBMIT, "FOO": "3"}),
        ("NONE", {"SLURM_NTASKS": "7"}),
        ("FOO=3", {"SLURM_NTASKS": "7", "FOO": "3"}),
        ("MYV,PATH", {"SLURM_NTASKS": "7", "MYV": "myval", "PATH": "/submit"}),
    ],
)
def test_srun_adds_no_login(text, expected):
    assert step_export(SUBMIT, text) == expected


def test_slurms_variables_win_and_tmpdir_is_there():
    assert completed({"A": "1", "B": "1"}, {"B": "2"}) == {"A": "1", "B": "2", "TMPDIR": "/tmp"}
    assert completed({"TMPDIR": "/scratch"}, {})["TMPDIR"] == "/scratch"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/usr/bin:/bin", "/ours:/usr/bin:/bin"),
        ("/usr/bin:/ours:/bin", "/ours:/usr/bin:/bin"),
        ("/ours:/bin", "/ours:/bin"),
        ("", "/ours"),
        (None, "/ours"),
    ],
)
def test_our_folder_is_first_on_path(path, expected):
    environment = {"PYTHONPATH": "/x"} if path is None else {"PYTHONPATH": "/x", "PATH": path}
    assert prepend_path(environment, "/ours") == {"PYTHONPATH": "/x", "PATH": expected}
    assert prepend_path(environment, "") == environment
