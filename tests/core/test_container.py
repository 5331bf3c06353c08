"""What containers are asked for, and the command lines of the programs that have images."""

from __future__ import annotations

import pytest

from shim.core import container
from shim.core.container import ContainerError, Image, Mount


@pytest.mark.parametrize(
    ("image", "programs", "found"),
    [
        ("x", ("podman", "docker"), "podman"),
        ("x", ("enroot", "podman"), "podman"),  # enroot's files could not be unpacked
        ("x", ("enroot", "unsquashfs", "podman"), "enroot"),
        ("x", ("singularity",), "singularity"),
        ("dockerd://x", ("podman",), None),
        ("podman://x", ("enroot", "unsquashfs", "podman"), "podman"),
        ("x", (), None),
    ],
)
def test_who_gets_an_image(image: str, programs: tuple[str, ...], found: str | None) -> None:
    got = container.fetcher(image, lambda name: f"/bin/{name}" if name in programs else None)
    assert (got and got[0]) == found


@pytest.mark.parametrize(
    ("image", "names"),
    [
        ("nvcr.io#nvidia/pytorch:25.01-py3", ["nvcr.io/nvidia/pytorch:25.01-py3"]),
        ("docker://me@nvcr.io#nvidia/pytorch", ["nvcr.io/nvidia/pytorch"]),
        ("nvcr.io/nvidia/pytorch:1", ["nvcr.io/nvidia/pytorch:1"]),
        ("localhost/a", ["localhost/a"]),
        ("ubuntu", ["localhost/ubuntu", "ubuntu", "docker.io/library/ubuntu"]),
        ("me@you/a:1", ["localhost/you/a:1", "you/a:1", "docker.io/you/a:1"]),
        ("a@sha256:00", ["localhost/a@sha256:00", "a@sha256:00", "docker.io/library/a@sha256:00"]),
    ],
)
def test_names_of_images(image: str, names: list[str]) -> None:
    assert container.registry_names(image) == names


@pytest.mark.parametrize("image", ["docker://", "http://x"])
def test_what_names_no_image(image: str) -> None:
    with pytest.raises(ContainerError, match="bad image"):
        container.registry_names(image)


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("enroot", ["/bin/enroot", "import", "--output", "/t", "docker://nvcr.io#a:1"]),
        ("apptainer", ["/bin/apptainer", "build", "--sandbox", "/t", "docker://nvcr.io/a:1"]),
        ("singularity", ["/bin/singularity", "build", "--sandbox", "/t", "docker://nvcr.io/a:1"]),
    ],
)
def test_how_an_image_is_got(name: str, argv: list[str]) -> None:
    assert container.fetch_argv(name, f"/bin/{name}", "nvcr.io#a:1", "/t") == argv


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("/a", [Mount(source="/a", target="/a")]),
        ("/a:/b:ro", [Mount(source="/a", target="/b", read_only=True)]),
        (
            "/a:/b:rprivate+ro,.:/c:rw",
            [Mount(source="/a", target="/b", read_only=True), Mount(source="/w/.", target="/c")],
        ),
    ],
)
def test_mounts(text: str, found: list[Mount]) -> None:
    assert container.mounts(text, "/w") == found


@pytest.mark.parametrize("text", ["a", "/a:b", ":/b"])
def test_bad_mounts(text: str) -> None:
    with pytest.raises(ContainerError, match="SRC:DST"):
        container.mounts(text, "/w")


def test_names_of_containers() -> None:
    assert container.container_name("ray-head") == ("ray-head", "")
    assert container.container_name("a:exec") == ("a", "exec")
    for bad in ("", "..", "a/b", "a:nosuch"):
        with pytest.raises(ContainerError):
            container.container_name(bad)


def test_an_images_variables_win_but_for_those_that_are_named() -> None:
    image = Image(environment=("PATH=/image", "A=image", "B=image", "PYTORCH_VERSION=2"))
    task = {"PATH": "/task", "A": "task", "B": "task", "SLURM_PROCID": "3", "SLURM_LOCALID": "1"}
    found = container.environment(task, image, "B,NOSUCH")
    assert found == {
        "PATH": "/image",
        "A": "image",
        "B": "task",
        "PYTORCH_VERSION": "2",
        "RANK": "3",
        "LOCAL_RANK": "1",
        "SLURM_PROCID": "3",
        "SLURM_LOCALID": "1",
    }


def test_what_programs_say_of_an_image() -> None:
    assert container.image_of_config({"Env": ["A=1"], "WorkingDir": "/w", "Entrypoint": None}) == Image(
        environment=("A=1",), work_dir="/w"
    )
    rc = 'mkdir -p "/opt/w" 2> /dev/null\ncd "/opt/w" && unset OLDPWD || exit 1\n'
    assert container.image_of_enroot("A=1\n# B=2\n", rc) == Image(environment=("A=1",), work_dir="/opt/w")
    exports = '#!/bin/sh\nexport PATH="/a:/b"\nexport A="${A:-"x y"}"\n'
    assert container.image_of_apptainer(exports) == Image(environment=("PATH=/a:/b", "A=x y"))


def test_a_user_is_named_once() -> None:
    line = "me:x:5:5::/home/me:/bin/sh"
    assert container.with_user("root:x:0:0:::", line) == f"root:x:0:0:::\n{line}\n"
    assert container.with_user("other:x:5:5:::", line) == "other:x:5:5:::\n"


def test_a_bundle_runs_the_task() -> None:
    config = {
        "ociVersion": "1.0.0",
        "process": {"terminal": True, "consoleSize": {}, "args": ["sh"], "env": ["PATH=/bundle"], "cwd": "/b"},
        "root": {"path": "rootfs", "readonly": True},
        "linux": {"namespaces": [{"type": "user"}, {"type": "pid"}]},
    }
    made = container.bundle_config(config, "/bundles/a/", ["a.out", "-x"], {"PATH": "/t", "A": "1"}, "", (1000, 100))
    assert made["process"] == {
        "terminal": False,
        "args": ["a.out", "-x"],
        "env": ["PATH=/bundle", "A=1"],
        "cwd": "/b",
    }
    assert made["root"] == {"path": "/bundles/a/rootfs", "readonly": True}
    assert made["linux"]["uidMappings"] == [{"containerID": 0, "hostID": 1000, "size": 1}]
    assert made["linux"]["gidMappings"] == [{"containerID": 0, "hostID": 100, "size": 1}]
    assert "consoleSize" in config["process"]
    batch = container.bundle_config(config, "/b", ["/run/5/slurm_script", "word"], {}, "/run/5/slurm_script")
    assert batch["process"]["args"] == ["/run/slurm/slurm_script", "word"]
    assert batch["mounts"][-1]["source"] == "/run/5/slurm_script"


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("runc", ["/r", "--root=/f/state", "--rootless=true", "run", "--bundle=/f", "id"]),
        ("crun", ["/r", "--root=/f/state", "--cgroup-manager=disabled", "run", "--bundle=/f", "id"]),
    ],
)
def test_how_a_bundle_is_run(name: str, argv: list[str]) -> None:
    assert container.runtime_argv(name, "/r", "/f", "id") == argv
