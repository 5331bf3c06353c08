"""Which programs for containers this machine has, and what is refused for want of them."""

from __future__ import annotations

import os

from shim.core import container
from shim.core.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from shim.core.options.sources import Settings

_BEHIND = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"  # where systems have them, whatever PATH says


def which(name: str, path: str | None = None) -> str | None:
    """Where a program is: on ``path`` (None: the caller's PATH), or where systems have programs."""
    path = os.environ.get("PATH", "") if path is None else path
    for folder in f"{path}:{_BEHIND}".split(":"):
        file = f"{folder}/{name}"
        if folder.startswith("/") and os.access(file, os.X_OK) and os.path.isfile(file):
            return file
    return None


def any_image() -> bool:
    """Whether some image could be run here."""
    return any(which(name) for name in (*container.FETCHERS, container.UNPACKER))


def found() -> dict[str, str]:
    """The programs that are there, by name."""
    places = {name: which(name) for name in (*container.FETCHERS, container.UNPACKER, *container.RUNTIMES)}
    return {name: place for name, place in places.items() if place}


def refuse_without(settings: Settings, backend: str) -> None:
    """Raises Unsupported, with what was looked for, where a container is asked for that no program here can start. Only jobs on this machine
    need one.
    """
    if backend != "local" or not any(name.startswith("container") for name in settings.sources):
        return
    lacking = container.missing(settings.texts, which)
    try:
        if lacking is None and settings.texts.get("container-name"):
            container.container_name(settings.texts["container-name"])
        if (
            lacking is None
            and settings.texts.get("container-image")
            and not container.is_file(settings.texts["container-image"])
        ):
            container.registry_names(settings.texts["container-image"])
        if lacking is None:
            container.mounts(settings.texts.get("container-mounts", ""), "/")
    except container.ContainerError as error:
        raise Unsupported(f"error: {error}") from None
    if lacking is not None:
        raise Unsupported(f"error: {lacking}")
