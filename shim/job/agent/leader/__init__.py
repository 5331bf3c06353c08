"""The leader of a run: barrier, batch script, time limits, orders, the end; who is connected, what is written down."""
