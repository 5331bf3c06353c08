"""Other backends than the pod's own are not there inside a pod."""
