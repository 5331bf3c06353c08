"""Model values as the text that squeue, sinfo and scontrol print. Pure: what time it is and who asks are arguments."""
