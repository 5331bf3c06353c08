"""Reading the kernel's count of processes killed for memory, and what becomes of a task that was."""

from __future__ import annotations

from pathlib import Path

from shim.job.pod.oom import OomKills

V2 = "low 0\nhigh 0\nmax 12\noom 3\noom_kill {}\noom_group_kill 0\n"
V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"


def test_only_new_kills_count(tmp_path: Path) -> None:
    for name, text in (("v2", V2), ("v1", V1)):
        file = tmp_path / name
        file.write_text(text.format(2))
        kills = OomKills(("/nowhere", str(file)))
        assert kills.new() == 0
        file.write_text(text.format(5))
        assert (kills.new(), kills.new()) == (3, 0)


def test_a_kernel_that_does_not_tell_counts_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert OomKills(("/nowhere", str(tmp_path / "old"))).new() == 0
