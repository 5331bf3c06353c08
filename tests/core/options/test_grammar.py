"""A site's options: the release of Slurm, pyxis, and what other plugins add."""

from __future__ import annotations

import pytest

from shim.core.errors import ShimError, Unsupported, UsageError
from shim.core.model.request import JobRequest
from shim.core.options import help, srun_salloc
from shim.core.options.batch import settle
from shim.core.options.build import job_request, step_request
from shim.core.options.grammar import NEW, Grammar
from shim.core.options.sources import Settings, read_line
from shim.core.options.submit_options import options_of
from shim.core.options.support import approximations, refuse_unsupported
from shim.core.options.validate import validate
from shim.core.options.value_parsing import PrintAndExit
from shim.core.options.values import Context
from shim.core.options.verbose import defined_options

NEWER = Grammar(release=NEW)
PYXIS = Grammar(pyxis=True)
SITE = Grammar(
    plugins=(("uenv", 1, ""), ("turbo", 0, ""), ("view", 2, ""), ("edf", 1, "account"), ("long", 0, "time=2-0"))
)


def no_file(path: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", path)


def sbatch(line: str, grammar: Grammar, script: str = "", **environ: str) -> Settings:
    context = Context(0.0, 1001, no_file, grammar)
    found, _ = read_line("sbatch", line.split(), grammar)
    return settle(context, [found], environ, f"#!/bin/sh\n{script}\n", "job.sh", lambda read: validate(read)[0])[0]


def job(line: str, grammar: Grammar, script: str = "", **environ: str) -> JobRequest:
    return job_request(sbatch(line, grammar, script, **environ), directory="/w", umask=0, name="job.sh")


def srun(line: str, grammar: Grammar, **environ: str) -> Settings:
    return srun_salloc.settle("srun", line.split(), environ, Context(0.0, 1001, no_file, grammar))[0].settings


@pytest.mark.parametrize("name", ["oom-kill-step=1", "tres-per-task=cpu=2", "segment=2", "container-id=a", "stepmgr"])
def test_newer_options_are_unknown_at_the_older_level(name: str) -> None:
    with pytest.raises(UsageError, match="unrecognized option"):
        sbatch(f"--{name}", Grammar())
    assert name.partition("=")[0] in sbatch(f"--{name}", NEWER)


@pytest.mark.parametrize(
    "word, older, newer",
    [
        ("--ex=n1", "--exclude --exclusive --export --export-file --extra-node-info", "--exclude --exclusive --export"),
        ("--container=x", "container", "container"),
        ("--po=x", "power", ""),
        ("--tre=cpu=1", "", "--tres-bind --tres-per-task"),
        ("--extra=x", "extra-node-info", "extra"),
    ],
)
def test_an_abbreviation_means_what_it_means_at_the_level(word: str, older: str, newer: str) -> None:
    for grammar, meant in ((Grammar(), older), (NEWER, newer)):
        try:
            found = read_line("sbatch", [word], grammar)[0][0][0].long
        except UsageError as refused:
            found = refused.lines[0]
        if meant.startswith("--"):
            assert "is ambiguous; possibilities: " in found
            assert all(f"'{name}'" in found for name in meant.split())
        else:
            assert found == (meant or f"unrecognized option '{word}'")


@pytest.mark.parametrize(
    "line, fields",
    [
        ("--tres-per-task=cpu=3,gres/gpu=2 -n2", {"cpus_per_task": 3, "gpus_per_task": "2"}),
        ("--tres-per-task=cpu:3,gres:gpu:a100:2 -n2", {"cpus_per_task": 3, "gpus_per_task": "a100:2"}),
        ("--tres-per-task=gres/gpu:a:1,gres/gpu:b=1 -n2", {"cpus_per_task": None, "gpus_per_task": "a:1,b:1"}),
        ("--requeue=expedite", {"requeue": True}),
        ("--requeue", {"requeue": True}),
        ("--gres-flags=one-task-per-sharing", {"extra": {"gres-flags": "one-task-per-sharing"}}),
        ("--extra=any --segment=4", {"extra": {"extra": "any", "segment": "4"}}),
    ],
)
def test_meanings_at_the_newer_level(line: str, fields: dict[str, object]) -> None:
    made = job(line, NEWER)
    for name, value in fields.items():
        assert getattr(made, name) == value, name


@pytest.mark.parametrize("text", ["", "cpu", "cpu=0", "cpu=x", "foo=1", "gres/gpu=", "cpu=1,cpu=2"])
def test_bad_resources_of_a_task(text: str) -> None:
    with pytest.raises(UsageError, match="Invalid --tres-per-task specification"):
        sbatch(f"--tres-per-task={text}", NEWER)


def test_resources_of_a_task_that_are_not_there_or_said_twice() -> None:
    with pytest.raises(Unsupported, match="license/x=1"):
        sbatch("--tres-per-task=license/x=1", NEWER)
    with pytest.raises(ShimError, match="mutually exclusive"):
        sbatch("--tres-per-task=cpu=1 -c2", NEWER)


def test_variables_follow_the_level() -> None:
    both = {"SLURM_CPUS_PER_TASK": "2", "SRUN_CPUS_PER_TASK": "3"}
    assert srun("x", Grammar(), **both).get("cpus-per-task") == 3
    assert srun("x", NEWER, **both).get("cpus-per-task") == 2
    assert srun("x", NEWER, SRUN_OUTPUT="a").get("output") == "a"
    assert "output" not in srun("x", Grammar(), SRUN_OUTPUT="a")
    assert "requeues" not in sbatch("", NEWER, SBATCH_REQUEUE="0")


def test_an_external_launcher_shares_resources() -> None:
    assert step_request(srun("--external-launcher x", NEWER), ["x"]).overlap
    assert not step_request(srun("x", NEWER), ["x"]).overlap


def test_the_version_follows_the_level() -> None:
    assert help.text_for("squeue", "version") == "slurm 22.05.8\n"
    assert help.text_for("squeue", "version", NEWER) == "slurm 25.11.0\n"


def test_completions() -> None:
    with pytest.raises(PrintAndExit) as shown:
        sbatch("--autocomplete=--mem", NEWER)
    assert shown.value.text.split() == ["--mem-bind=", "--mem-per-cpu=", "--mem-per-gpu=", "--mem-update=", "--mem="]


@pytest.mark.parametrize("command", ["sbatch", "srun", "salloc"])
@pytest.mark.parametrize("grammar", [NEWER, PYXIS, SITE])
def test_help_names_what_the_site_has(command: str, grammar: Grammar) -> None:
    text = help.text_for(command, "help", grammar)
    for option in options_of(command, grammar):
        assert option.long != option.field or f"--{option.long}" in text


def test_pyxis() -> None:
    script = "#SBATCH --container-image=a/b:1 --container-mounts=/x:/y --no-container-mount-home --container-writable"
    with pytest.raises(UsageError, match="unrecognized option"):
        sbatch("", Grammar(), script)
    settings = sbatch("--container-workdir=/z", PYXIS, script)
    made = job_request(settings, directory="/w", umask=0, name="job.sh")
    assert (made.container_image, made.container_mounts) == ("a/b:1", "/x:/y")
    assert made.container == {"container-image": "a/b:1", "container-mounts": "/x:/y", "container-workdir": "/z"}
    refuse_unsupported(settings, "local")
    with pytest.raises(Unsupported, match="--container-save"):
        refuse_unsupported(sbatch("--container-save=/z", PYXIS, script), "local")
    refuse_unsupported(settings, "kubernetes")
    assert step_request(srun("--container-image=a x", PYXIS), ["x"]).container_image == "a"


def test_ignored_options_are_named() -> None:
    settings = sbatch("--turbo --uenv a --view --view=b -n2", SITE, "#SBATCH --uenv=c")
    assert settings.ignored == ("uenv", "turbo", "uenv", "view", "view")
    refuse_unsupported(settings)
    assert approximations(settings) == [
        f"--{name} is accepted without effect, as the configuration says (plugins.ignore)"
        for name in ("uenv", "turbo", "view")
    ]
    assert not any("uenv" in line for line in defined_options(settings, "/w"))


@pytest.mark.parametrize(
    "line, message",
    [
        ("--uenv", "option '--uenv' requires an argument"),
        ("--turbo=1", "option '--turbo' doesn't allow an argument"),
        ("--long=1", "option '--long' doesn't allow an argument"),
    ],
)
def test_values_of_plugins_options(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sbatch(line, SITE)


def test_options_that_stand_for_others() -> None:
    made = job("--edf=Mine --long", SITE)
    assert (made.account, made.time_limit) == ("mine", 2880)
    assert job("--long -t5", SITE).time_limit == 5


def test_what_a_site_ignores_wins_over_pyxis() -> None:
    grammar = PYXIS.replace(plugins=(("container-image", 1, ""),))
    assert len(options_of("srun", grammar)) == len(options_of("srun", PYXIS))
    assert job("--container-image=x", grammar).container_image is None


def test_a_grammar_survives_its_journey_into_a_pod() -> None:
    assert Grammar.from_dict(SITE.to_dict()) == SITE
