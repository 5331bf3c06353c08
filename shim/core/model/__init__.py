"""The values everything else speaks in: requests, jobs, steps, nodes, partitions, states."""
