"""sbcast: a file to every node of a job. Nodes of one machine share its files: there one copy is made."""

from __future__ import annotations

import os

from shim.commands import job_leader, output, site_view
from shim.commands.job_ids import parse_job_id
from shim.core.errors import INVALID_JOB_ID, ShimError, plain
from shim.core.options.query_options import read
from shim.job.steps import broadcast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from shim.core.options.query_options import Values

    Errors = list[tuple[str, int]] | None

_PROGRAM = "sbcast"
_FAILED = 255
_UNITS = {"": 1, "k": 1024, "m": 1024 * 1024}


def main(argv: list[str]) -> int:
    """Runs sbcast; its exit code."""
    values, words = read(_PROGRAM, argv, os.environ)
    if site_view.print_help(_PROGRAM, values):
        return 0
    if "size" in values and not _is_size(values["size"]):
        output.say(_PROGRAM, plain("size specification is invalid, ignored"))
    if len(words) != 2:
        raise ShimError(
            plain(f"Need two file names, have {len(words)} names"), plain('Try "sbcast --help" for more information')
        )
    compress = values.get("compress")
    if compress and compress.lower() not in ("lz4", "none"):
        output.say(_PROGRAM, f"error: Compression type '{compress}' unknown, disabling compression support.")
    source, dest = words
    sent = _Broadcast(values)
    sent.to(*_job(argv, values))
    if dest.endswith("/"):
        raise ShimError("error: Target filename cannot be a directory.")
    return sent.run(source, os.path.join(os.getcwd(), dest))


def _is_size(text: str) -> bool:
    digits = text[:-1] if text[-1:].lower() in ("k", "m") else text
    return digits.isascii() and digits.isdigit()


def _job(argv: list[str], values: Values) -> tuple[int, str | None]:
    """The job, and its step. ShimError with Slurm's words; does not return for a real Slurm's job."""
    text = values.get("jobid") or os.environ.get("SLURM_JOB_ID") or os.environ.get("SLURM_JOBID", "")
    if not text:
        raise ShimError(
            "error: Need a job id to run this command.  Run from within a Slurm job or use the --jobid option."
        )
    wanted = parse_job_id(text)
    if wanted is None:
        raise ShimError(f"error: Slurm job 0 lookup error: {INVALID_JOB_ID}", code=_FAILED)
    job_leader.hand_on(_PROGRAM, argv, [wanted.job_id])
    if str(wanted.job_id) != os.environ.get("SLURM_JOB_ID"):
        job = job_leader.find(_PROGRAM, wanted)
        if job is None or not job_leader.runs(job):
            raise _unknown(text)
        return job.job_id, wanted.step
    return wanted.job_id, wanted.step


def _unknown(text: str) -> ShimError:
    return ShimError(f"error: Slurm job {text} lookup error: {INVALID_JOB_ID}", code=_FAILED)


class _Broadcast:
    """What is sent to the nodes of one job, and how."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._verbose = len(values.get("verbose", ""))
        self._kept = "preserve" in values
        self._how: dict[str, Any] = {"force": "force" in values}
        self._libraries = _wants_libraries(values)
        self._excluded, wrong = broadcast.excluded(values.get("exclude"))
        output.say(_PROGRAM, *wrong)

    def to(self, job_id: int, step: str | None) -> None:
        """The job, and its step whose nodes alone are meant."""
        self._job_id = job_id
        self._text = f"{job_id}.{step}" if step else str(job_id)
        self._how["step"] = step

    def run(self, source: str, dest: str) -> int:
        """Sends the file, then its libraries; the exit code."""
        found = _status(source)
        if self._verbose:
            self._tell(source, dest, found)
        if not found.st_size:
            output.say(_PROGRAM, f"error: Warning: file `{source}` is empty.")
        libraries = broadcast.libraries_of(source, self._excluded) if self._libraries else []
        if libraries is None:
            output.say(
                _PROGRAM,
                f"error: Cannot autodetect libraries for '{source}' with ldd command; still sending the file but ignoring send_libs",
            )
        code = self._send(source, dest, found)
        if code or not self._libraries or libraries is None:
            return code
        folder = f"{dest}_libs"
        code = self._told(self._to_nodes(None, folder, None))
        for library in libraries if not code else ():
            code = self._send(library, f"{folder}/{os.path.basename(library)}", _status(library))
            if code:
                output.say(_PROGRAM, f"error: Broadcast of '{library}' failed")
                break
        return code

    def _send(self, source: str, dest: str, found: os.stat_result) -> int:
        return self._told(self._to_nodes(source, dest, found))

    def _to_nodes(self, source: str | None, dest: str, found: os.stat_result | None) -> Errors:
        try:
            folder = job_leader.run_folder(self._job_id)
            if source is None or found is None:
                return broadcast.make_folder(folder, dest, **self._how)
            times = (found.st_atime, found.st_mtime) if self._kept else None
            return broadcast.send(folder, source, dest, mode=found.st_mode & 0o7777, times=times, **self._how)
        except (OSError, ValueError):
            raise _unknown(self._text) from None

    def _told(self, errors: Errors) -> int:
        if errors is None:
            raise _unknown(self._text)
        lines = [f"error: REQUEST_FILE_BCAST({node}): {os.strerror(error)}" for node, error in errors]
        if lines:
            output.say(_PROGRAM, *lines)
        return errors[-1][1] if errors else 0

    def _tell(self, source: str, dest: str, found: os.stat_result) -> None:
        """-v: the options, and the file."""
        from time import ctime

        values = self._values
        line = "-" * 29
        output.say(
            _PROGRAM,
            line,
            f"block_size = {_size(values.get('size'))}",
            "compress   = 0",
            f"exclude    = {','.join(self._excluded) or 'NONE'}",
            f"force      = {_word(self._how['force'])}",
            f"fanout     = {_digits(values.get('fanout'))}",
            f"preserve   = {_word(self._kept)}",
            f"send_libs  = {_word(self._libraries)}",
            f"timeout    = {_digits(values.get('timeout'))}",
            f"verbose    = {self._verbose}",
            f"source     = {source}",
            f"dest       = {dest}",
            line,
            f"modes    = {found.st_mode:o}",
            f"uid      = {found.st_uid}",
            f"gid      = {found.st_gid}",
            f"atime    = {ctime(found.st_atime)}",
            f"mtime    = {ctime(found.st_mtime)}",
            f"ctime    = {ctime(found.st_ctime)}",
            f"size     = {found.st_size}",
            f"jobid      = {self._text}",
        )


def _word(flag: bool) -> str:
    return "true" if flag else "false"


def _digits(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _size(text: str | None) -> int:
    if not text or not _is_size(text):
        return 8 << 20
    unit = text[-1:].lower()
    return int(text[:-1]) * _UNITS[unit] if unit in ("k", "m") else int(text)


def _status(source: str) -> os.stat_result:
    """The file's status. ShimError with Slurm's words for what cannot be read."""
    try:
        os.close(os.open(source, os.O_RDONLY | os.O_CLOEXEC))
        found = os.stat(source)
    except OSError as error:
        raise ShimError(f"error: Can't open `{source}`: {error.strerror}", code=_FAILED) from None
    if os.path.isdir(source):
        raise ShimError(f"error: Can't mmap file `{source}`, No such device.", code=_FAILED)
    return found


def _wants_libraries(values: Values) -> bool:
    text = values.get("send-libs")
    if text is None or text.lower() == "no":
        return False
    if text.lower() not in ("", "yes"):
        output.say(_PROGRAM, f"error: Ignoring unrecognized --send-libs value '{text}'")
        return False
    return True
