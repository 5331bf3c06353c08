"""A real Kubernetes of several nodes on this machine: its programs, images, networks, control plane and nodes."""
