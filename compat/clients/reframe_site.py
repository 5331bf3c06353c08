"""ReFrame's view of the cluster: asked by sacct (slurm) and by squeue alone (squeue)."""

partitions = [
    {
        "name": scheduler,
        "scheduler": scheduler,
        "launcher": "srun",
        "environs": ["builtin"],
        "access": ["-p debug"],
    }
    for scheduler in ("slurm", "squeue")
]
site_configuration = {
    "systems": [{"name": "here", "descr": "four nodes", "hostnames": [".*"], "partitions": partitions}]
}
