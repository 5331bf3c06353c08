"""Has SkyPilot's own package judge tasks: each file by its schemas, and by loading it as `sky launch` and `sky jobs launch` do. Prints what was read, with the script that a node would run."""

import json
import sys

from sky.skylet import log_lib
from sky.utils import common_utils, dag_utils, schemas, yaml_utils

for path in sys.argv[1:]:
    documents = yaml_utils.read_yaml_all(path)
    tasks = documents[1:] if dag_utils.is_job_group_yaml(path) else documents
    for task in tasks:
        common_utils.validate_schema(task, schemas.get_task_schema(), "task: ")
        common_utils.validate_schema(task.get("resources", {}), schemas.get_resources_schema(), "resources: ")
    loaded = dag_utils.load_dag_from_yaml(path)
    for task in loaded.tasks:
        (resources,) = task.resources
        print(
            json.dumps(
                {
                    "name": task.name,
                    "num_nodes": task.num_nodes,
                    "accelerators": resources.accelerators,
                    "cpus": resources.cpus,
                    "memory": resources.memory,
                    "disk_size": resources.disk_size,
                    "image_id": resources.image_id,
                    "envs": task.envs,
                    "group": loaded.is_job_group(),
                    "script": log_lib.make_task_bash_script(task.run, env_vars=task.envs),
                }
            )
        )
