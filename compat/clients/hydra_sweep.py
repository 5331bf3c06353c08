"""hydra's submitit launcher: a sweep of four jobs, as an array. Run with ``-m x=1,2,3,4``."""

from __future__ import annotations

import os

import hydra
from omegaconf import DictConfig


@hydra.main(version_base=None, config_path=None, config_name="config")
def main(config: DictConfig) -> str:
    """Leaves a file that names the element of the array."""
    with open("swept", "w") as file:
        file.write(f"{config.x} {os.environ['SLURM_ARRAY_TASK_ID']}\n")
    return str(config.x)


if __name__ == "__main__":
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(name="config", node={"x": 0})
    main()
