"""Accepted jobs as objects of the cluster: a record (ConfigMap) and a payload (Secret) each. They are the truth; an index is a cache.

``record.py``: what a record says, to and from its ConfigMap. ``payload.py``: what a job needs to run, in its Secret. ``store.py``: all
records of a namespace, watched, read live and written under uid and resourceVersion.
"""
