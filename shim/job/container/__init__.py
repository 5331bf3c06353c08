"""Containers of tasks on this machine, acted out: images got and unpacked, namespaces entered."""
