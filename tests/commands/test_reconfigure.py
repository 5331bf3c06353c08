"""The configuration changes while jobs are active: what commands show and what the controller does is one and the same."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shim.control import paths
from shim.control.config_words import CLUSTER, Word
from shim.control.index.reader import open_reader
from shim.core.model.job import Job
from tests.control.backends.slurm.fake import OURS
from tests.control.controller import processes
from tests.support import wait_until

ONE = "[clusters.local]\nnode_names = 'n[1-3]'\ncpus = 2\n"
TWO = "default = 'big'\n[clusters.local]\nnode_names = 'n[1-2]'\ncpus = 2\n[clusters.local.partitions.other]\n[clusters.big]\nnode_names = 'b1'\ncpus = 2\n"


class Site:
    """A configuration file, and commands that are run as users run them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "config" / "shim" / "config.toml"
        self.file.parent.mkdir(parents=True)

    def configure(self, text: str) -> None:
        """As an editor does: another file takes the old one's place."""
        draft = self.file.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self.file)

    def said(self, *words: str, code: int = 0) -> tuple[str, list[str]]:
        """stdout, and the lines on stderr, of one of our commands."""
        done = subprocess.run([OURS / words[0], *words[1:]], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == code, (done, processes.log())
        return done.stdout, done.stderr.splitlines()

    def submitted(self, *words: str) -> tuple[int, list[str]]:
        """The id of a submission, and what was said."""
        out, err = self.said("sbatch", "--parsable", "-o", "/dev/null", *words)
        return int(out), err

    def running(self, *words: str) -> int:
        """The id of a job that runs until it is cancelled."""
        found = self.submitted(*words, "--wrap", "sleep 300")[0]
        wait_until(lambda: job(found).state == "RUNNING", "the job runs")
        return found


def job(job_id: int) -> Job:
    reader = open_reader(paths.index_path())
    assert reader is not None
    found = reader.job(None, job_id)
    assert found is not None
    return found


@pytest.fixture
def site(tmp_path: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The site of a test; its jobs and its controller end with it."""
    monkeypatch.setenv("SHIM_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{OURS}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    made = Site(tmp_path)
    made.configure(ONE)
    with processes.ended_afterwards():
        yield made
        ids = made.said("squeue", "-h", "-o", "%A")[0].split()
        if ids:
            made.said("scancel", *ids)
        wait_until(lambda: not made.said("squeue", "-h")[0], "no job is left")


def test_a_changed_file_counts_for_new_jobs_and_what_stays_is_named(site: Site) -> None:
    runs = site.running("-w", "n3")
    controller = processes.pid()
    site.configure(TWO)
    assert "other*" in site.said("sinfo")[0]
    new, err = site.submitted("-H", "--wrap", "true")
    kept = [
        f"node n3 of cluster local stays for job {runs}: configured no more",
        f"partition debug of cluster local stays for job {runs}: it is configured no more",
    ]
    assert err == [f"sbatch: warning: {line}" for line in kept]
    assert (job(new).cluster, job(runs).state) == ("big", "RUNNING")
    assert processes.pid() == controller, "it is the same process, outside of any job"
    listed, err = site.submitted("-H", "-p", "other", "--wrap", "true")
    assert (job(listed).cluster, err) == ("local", []), "what stays is told once"
    assert site.said("scontrol", "reconfigure") == ("", [f"scontrol: warning: {line}" for line in kept])
    assert [line in site.said("shim", "doctor")[0] for line in kept] == [True, True]
    _, err = site.said("sbatch", "-M", "local", "-p", "debug", "--wrap", "true", code=1)
    assert err[0] == "sbatch: error: invalid partition specified: debug"
    _, err = site.said("sbatch", "-p", "other", "-w", "n3", "--wrap", "true", code=1)
    assert err == ["sbatch: error: Batch job submission failed: Invalid node name specified"]
    site.said("scancel", str(runs))
    wait_until(lambda: site.said("scontrol", "reconfigure")[1] == [], "nothing has to stay")


PARTITIONS = "[clusters.local]\nnode_names = 'n[1-2]'\ncpus = 2\n[clusters.local.partitions.main]\n[clusters.local.partitions.better]\npriority_tier = 10\n"
CLOSED = PARTITIONS + "alloc_nodes = 'elsewhere'\n"
UNAVAILABLE = "Requested partition configuration not available now"


def test_no_job_starts_in_a_partition_that_is_closed_to_its_user(site: Site) -> None:
    site.configure(PARTITIONS)
    waits = site.submitted("-H", "-p", "better", "--wrap", "sleep 300")[0]
    tasks = site.submitted("-H", "-p", "better", "-a", "0-1", "--wrap", "true")[0]
    site.configure(CLOSED)
    assert site.said("sbatch", "-p", "better", "--wrap", "true", code=1)[1] == [
        "sbatch: error: Batch job submission failed: Access/permission denied"
    ]
    in_main = site.running("-p", "better,main")
    assert job(in_main).partition == "main"
    # What is asked of a job is done, and called an error.
    _, err = site.said("scontrol", "release", str(waits), code=1)
    assert err == [f"{UNAVAILABLE} for job {waits}", f"slurm_suspend error: {UNAVAILABLE}"]
    site.said("scontrol", "release", str(tasks), code=1)
    moved = site.submitted("-H", "-p", "main", "--wrap", "sleep 300")[0]
    update = ("scontrol", "update", f"job={moved}", "Partition=better")
    assert site.said(*update, code=1)[1] == [f"{UNAVAILABLE} for job {moved}"]
    site.said("scontrol", "release", str(moved), code=1)
    for one in (waits, tasks, moved):
        wait_until(lambda one=one: job(one).reason == "PartitionConfig", "it is said why the job waits")
    assert site.said("squeue", "-h", "-p", "better", "-t", "RUNNING")[0] == ""
    site.configure(PARTITIONS)
    assert site.said("scontrol", "update", f"job={moved}", "Name=again") == ("", [])
    wait_until(lambda: job(waits).state == job(moved).state == "RUNNING", "the open partition takes the jobs")


def test_a_running_srun_goes_on(site: Site) -> None:
    with subprocess.Popen(
        [OURS / "srun", "-w", "n3", "sh", "-c", "echo begun; read line; echo $line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as srun:
        assert srun.stdin is not None
        assert srun.stdout is not None
        assert srun.stdout.readline() == "begun\n"
        site.configure(TWO)
        assert len(site.submitted("-H", "--wrap", "true")[1]) == 2
        assert srun.communicate("end\n", timeout=60)[0] == "end\n"
        assert srun.returncode == 0


@pytest.mark.parametrize("words", [("srun", "hostname"), ("salloc", "true")])
def test_who_waits_for_an_allocation_waits_on(site: Site, words: tuple[str, ...]) -> None:
    site.said("scontrol", "update", "partitionname=debug", "state=down")
    with subprocess.Popen(
        [OURS / words[0], *words[1:]], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as waits:
        wait_until(lambda: "debug" in site.said("squeue", "-h", "-t", "PD")[0], "it waits")
        site.configure(ONE + "[clusters.more]\n")
        site.submitted("-H", "--wrap", "true")
        assert processes.begun() == 2
        assert processes.kill()
        site.said("scontrol", "update", "partitionname=debug", "state=up")
        _, err = waits.communicate(timeout=60)
    assert waits.returncode == 0, err
    assert "queued and waiting for resources" in err


def test_a_changed_text_without_other_clusters_changes_nothing(site: Site) -> None:
    site.submitted("-H", "--wrap", "true")
    site.configure(ONE + "# a comment\n")
    site.submitted("-H", "--wrap", "true")
    assert processes.begun() == 1


def test_a_shell_with_another_configuration_gets_its_own_and_is_told(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = site.submitted("-H", "--wrap", "true")[0]
    (site.folder / "mine.toml").write_text("[clusters.mine]\nnode_names = 'm1'\ncpus = 2\n[clusters.local]\n")
    monkeypatch.setenv("SHIM_CONFIG", "mine.toml")  # of the folder that the shell is in
    monkeypatch.setenv("SHIM_DEFAULT", "mine")
    found, err = site.submitted("--wrap", "true")
    mine = f"SHIM_CONFIG={site.folder}/mine.toml, SHIM_DEFAULT=mine"
    assert err == [f"sbatch: warning: another configuration than until now: {mine}"]
    assert job(found).cluster == "mine"
    assert job(held).state == "PENDING"
    monkeypatch.delenv("SHIM_CONFIG")
    monkeypatch.delenv("SHIM_DEFAULT")
    found, err = site.submitted("--wrap", "true")
    assert job(found).cluster == "local"
    assert err[0].startswith("sbatch: warning: another configuration than until now: without SHIM_CONFIG=")


def test_a_configuration_that_cannot_be_used_refuses_and_the_old_jobs_go_on(site: Site) -> None:
    runs = site.running()
    site.configure("[clusters.local]\nnodez = 1\n")
    _, err = site.said("sbatch", "--wrap", "true", code=1)
    assert 'unknown word "clusters.local.nodez"' in err[0]
    site.configure(ONE)
    site.submitted("--wrap", "true")
    assert job(runs).state == "RUNNING"
    assert processes.begun() == 1


def test_jobs_that_are_there_are_acted_on_though_the_configuration_cannot_be_used(site: Site, tmp_path: Path) -> None:
    inside = tmp_path / "inside.sh"
    inside.write_text("#!/bin/bash\nuntil [ -e go ]; do sleep 0.05; done\nsrun echo a step\nsbatch --wrap true\n")
    out, _ = site.said("sbatch", "--parsable", "-o", str(tmp_path / "inside.out"), str(inside))
    active, held = site.running(), site.submitted("--hold", "--wrap", "true")[0]
    table = tmp_path / "table"
    table.write_text("@yearly true\n")
    site.said("scrontab", str(table))
    site.configure("[clusters.local]\nnodes = 'many'\n")
    (wrong,) = site.said("sbatch", "--wrap", "true", code=1)[1]
    assert wrong.startswith(f"sbatch: error: {site.file}: ")
    assert site.said("srun", "true", code=1)[1] == [wrong.replace("sbatch:", "srun:")]
    why = wrong.removeprefix("sbatch: error: ")

    def goes_on(*words: str) -> str:
        said, err = site.said(*words)
        assert err == [f"{words[0]}: warning: {why}; jobs go on as they were configured before"]
        return said

    assert goes_on("squeue", "-h", "-o", "%A %T", "-S", "i").split("\n")[1:3] == [
        f"{active} RUNNING",
        f"{held} PENDING",
    ]
    assert goes_on("sinfo", "-h", "-o", "%N") == "n[1-3]\n"
    assert goes_on("sacctmgr", "-n", "show", "cluster", "format=cluster") == "     local \n"
    assert "root" in goes_on("sshare") and "local" in goes_on("sreport", "cluster", "utilization")
    assert goes_on("scrontab", "-l") == "@yearly true\n"
    goes_on("scrontab", "-r")
    goes_on("strigger", "--get", "-n")
    assert site.said("scrontab", str(table), code=1)[1] == [wrong.replace("sbatch:", "scrontab:")]
    goes_on("scontrol", "release", str(held))
    goes_on("scancel", str(active))
    wait_until(lambda: job(active).state == "CANCELLED" and job(held).state == "COMPLETED", "both have ended")
    Path("go").touch()
    wait_until(lambda: job(int(out)).state == "FAILED", "the script has ended")
    said = (tmp_path / "inside.out").read_text().splitlines()
    assert "a step" in said and any(line.startswith(f"sbatch: error: {site.file}: ") for line in said)
    processes.kill()
    wait_until(lambda: processes.pid() is None, "no controller is left")
    assert site.said("scancel", str(active), code=1)[1] == [wrong.replace("sbatch:", "scancel:")]  # nobody knows
    site.configure(ONE)


def test_with_a_real_slurm_beside_nobody_goes_on(site: Site) -> None:
    """An order that names no cluster could be meant for that one."""
    real = "[clusters.real]\nbackend = 'slurm'\nbin = '/nonexistent'\n"
    site.configure(ONE + real)
    held = site.submitted("--hold", "--wrap", "true")[0]
    site.configure("nonsense\n")
    assert [line for line in site.said("squeue", code=1)[1] if "warning" in line] == []
    site.configure(ONE)
    assert site.said("squeue", "-h", "-o", "%A")[0] == f"{held}\n"


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here, user: me}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:PORT"}}]
users: [{name: me, user: {token: secret}}]
"""


class Denies(BaseHTTPRequestHandler):
    """An API server that knows nobody."""

    def do_GET(self) -> None:
        text = b'{"kind": "Status", "status": "Failure", "reason": "Unauthorized", "message": "nobody you know", "code": 401}'
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_PUT = do_PATCH = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def test_a_cluster_is_looked_for_by_the_kubeconfig_of_the_shell_that_submits(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever tries jobs here first, and then a cluster, has a controller that is older than the variable."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(site.file.parents[1]))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    held = site.submitted("-H", "--wrap", "true")[0]
    site.configure(ONE + "[clusters.k8s]\nbackend = 'kubernetes'\nimage = 'x'\ntimeout = 1\nnodes = 2\n")
    submit = ("sbatch", "-M", "k8s", "--test-only", "--wrap", "true")
    lacks = "sbatch: error: cluster k8s: no kubeconfig: KUBECONFIG is not set and there is no ~/.kube/config"
    assert site.said(*submit, code=1)[1] == [lacks]
    with ThreadingHTTPServer(("127.0.0.1", 0), Denies) as server:
        threading.Thread(target=server.serve_forever).start()
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.replace("PORT", str(server.server_port)))
        monkeypatch.setenv("KUBECONFIG", "kubeconfig")  # of the shell's working directory
        err = site.said(*submit, code=1)[1]
        server.shutdown()
    assert "no kubeconfig" not in str(err) and "nobody you know" in str(err), err
    assert job(held).state == "PENDING"
    site.configure(ONE)


def test_no_job_is_started_by_a_configuration_that_is_no_more(site: Site) -> None:
    held = site.submitted("-H", "--wrap", "sleep 300")[0]
    site.configure(ONE.replace("n[1-3]", "m[1-3]"))
    site.said("scontrol", "release", str(held))
    wait_until(lambda: job(held).state == "RUNNING", "the job runs")
    assert [share.name for share in job(held).shares] == ["m1"]


def test_a_listing_of_a_changed_configuration_has_waiting_jobs_follow_it(site: Site) -> None:
    site.running("-N3", "--exclusive")
    waits = site.submitted("--wrap", "sleep 300")[0]
    wait_until(lambda: job(waits).reason == "Resources", "the job waits")
    site.configure(ONE.replace("n[1-3]", "n[1-4]"))
    assert "idle n4" in site.said("sinfo")[0]
    wait_until(lambda: job(waits).state == "RUNNING", "the job runs")
    assert [share.name for share in job(waits).shares] == ["n4"]
    begun = processes.begun()
    site.configure(ONE.replace("n[1-3]", "n[1-4]") + "# a comment\n")
    site.said("sinfo")
    site.said("scontrol", "reconfigure")
    assert processes.begun() == begun
    assert site.said("sinfo")[1] == []


# What a limit is set to here, and what `scontrol show config` says then; the name of the line is that of the row.
_LIMITS = {
    "first_job_id": ("77", "77"),
    "max_array_size": ("55", "55"),
    "max_jobs": ("44", "44"),
    "kill_wait": ("33", "33 sec"),
    "mpi_default": ("'pmi2'", "pmi2"),
    "mail_prog": ("'/opt/mail'", "/opt/mail"),
    "mail_domain": ("'example.org'", "example.org"),
    "min_job_age": ("22", "22 sec"),
    "def_mem_per_cpu": ("11", "11"),
    "max_mem_per_cpu": ("12", "12"),
    "max_mem_per_node": ("13", "13"),
    "enforce_part_limits": ("true", "ALL"),
    "requeue": ("false", "0"),
    "licenses": ("'matlab:2,ansys'", "matlab:2,ansys:1"),
}


_IN_SLURM_CONF = {"true": "YES", "false": "0"}


def test_every_limit_that_slurm_has_is_listed() -> None:
    assert {word.name for word in CLUSTER if word.limit and word.slurm} == set(_LIMITS)


@pytest.mark.parametrize("beside", ["", "slurm_conf"])
@pytest.mark.parametrize("word", [word for word in CLUSTER if word.limit and word.slurm], ids=lambda word: word.name)
def test_a_limit_of_the_configuration_is_what_scontrol_shows(site: Site, word: Word, beside: str) -> None:
    """Alone and beside slurm_conf; and so is what slurm.conf itself says."""
    value, shown = _LIMITS[word.name]
    shape = "node_names = 'n1'\ncpus = 2\n"
    if beside:
        conf = site.folder / "slurm.conf"
        conf.write_text("NodeName=n1 CPUs=2\nPartitionName=debug Nodes=n1 Default=YES\n")
        shape = f"slurm_conf = '{conf}'\n"
    site.configure(f"[clusters.local]\n{shape}{word.name} = {value}\n")
    assert [word.slurm, "=", *shown.split()] in [
        line.split() for line in site.said("scontrol", "show", "config")[0].splitlines()
    ]
    if beside:
        with conf.open("a") as file:
            file.write(f"{word.slurm}={_IN_SLURM_CONF.get(value, value.strip(chr(39)))}\n")
        site.configure(f"[clusters.local]\n{shape}")
        assert [word.slurm, "=", *shown.split()] in [
            line.split() for line in site.said("scontrol", "show", "config")[0].splitlines()
        ]
