"""Which requests a cluster takes: refusals, the rules of partitions, reasons that keep a job pending. Pure."""
