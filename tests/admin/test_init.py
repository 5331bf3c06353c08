"""`shim init`: the configuration it writes makes the scripts that it was made for run."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from shim.admin import app, check
from shim.control import site

HEADERS = {
    "llm.sh": ("-p a100 -N 6 --ntasks-per-node=8 -c 16", "--mem=400G", '-C "rome&ib"', "-L matlab:2"),
    "gpu.sh": ("-N2 --gres=gpu:a100:4 -p gpu", "--array=0-5000%4"),
    "plain.sh": ("-n 3",),
}


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    for name, lines in HEADERS.items():
        (tmp_path / name).write_text("#!/bin/bash\n" + "".join(f"#SBATCH {line}\n" for line in lines))
    return list(HEADERS)


def test_what_it_writes_accepts_the_scripts(
    scripts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["init", *scripts]) == 0
    written = (tmp_path / "config" / "shim" / "config.toml").read_text()
    assert capsys.readouterr().out == written
    cluster = site.cluster()
    assert not cluster.elastic
    assert [one.name for one in cluster.partitions] == ["debug", "a100", "gpu"]
    assert cluster.default_partition is not None and cluster.default_partition.name == "debug"
    assert (len(cluster.nodes), cluster.nodes[0].cpus, cluster.nodes[0].gpus) == (6, 128, 4)
    assert cluster.max_array_size == 5001
    out = io.StringIO()
    assert check.report(scripts, out)
    assert "3 scripts: 0 would be refused, 0 would wait for ever" in out.getvalue()


def test_a_script_with_a_container_is_accepted_afterwards_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (tmp_path / "podman").write_text("#!/bin/sh\n")
    (tmp_path / "podman").chmod(0o755)
    Path("train.sh").write_text("#!/bin/bash\n#SBATCH --container-image=pytorch --container-mounts=/tmp:/tmp\n")
    assert app.main(["init", "train.sh"]) == 0
    out = io.StringIO()
    assert check.report(["train.sh"], out), out.getvalue()


def test_a_configuration_is_not_replaced_unasked(
    scripts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["init", "--show", "plain.sh"]) == 0
    assert capsys.readouterr().out == "[clusters.local]\nnodes = 4\n"
    assert not (tmp_path / "config").exists()
    assert app.main(["init"]) == 0
    assert app.main(["init", "gpu.sh"]) == 1
    assert "is there already; --force replaces it" in capsys.readouterr().err
    assert app.main(["init", "--force", "gpu.sh"]) == 0
    assert site.cluster().nodes[0].gpus == 4


def test_names_in_any_letters_make_a_configuration_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for header, code in ((b'-p "gr\xc3\xbcn,a.b c"', 0), (b'-p "a\x01b"', 1), (b'-p "a\xffb"', 1)):
        (tmp_path / "a.sh").write_bytes(b"#!/bin/sh\n#SBATCH " + header + b"\n")
        assert app.main(["init", "--force", "a.sh"]) == code, header
        assert [one.name for one in site.cluster().partitions] == ["grün", "a.b c"], "the former one stays"
    said = capsys.readouterr().err
    assert 'error: "a\\x01b" cannot be a name' in said
    assert 'error: "a\\xffb" cannot be a name' in said


def test_a_slurm_conf_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.txt").write_text(
        "ClusterName=c\nNodeName=n[1-3] CPUs=4\nPartitionName=main Nodes=ALL Default=YES\n"
    )
    assert app.main(["init", "site.txt"]) == 0
    assert [node.name for node in site.cluster().nodes] == ["n1", "n2", "n3"]


@pytest.mark.parametrize(
    ("words", "text"),
    [(["nothere"], "Unable to open file nothere: No such file"), (["a.conf", "b.sh"], "name that alone, or scripts")],
)
def test_bad_words(
    words: list[str], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.conf").write_text("")
    (tmp_path / "b.sh").write_text("#!/bin/sh\n")
    assert app.main(["init", *words]) == 1
    assert text in capsys.readouterr().err
