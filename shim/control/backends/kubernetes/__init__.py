"""Jobs as gangs of pods: one Indexed Job, one Secret, one agent in each pod. See docs/kubernetes.md."""
