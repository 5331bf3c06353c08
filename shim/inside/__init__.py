"""What commands ask of ``shim.control``, answered inside a pod, where there is no index and no controller.

The archive of the pods (``backends/kubernetes/bundle.py``) holds this package under the name ``shim.control``: commands need not
know where they are. A job and its steps are known from the run's folder and from its leader; nothing else is.
"""
