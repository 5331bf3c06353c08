"""The `shim` command (Typer): doctor, config, explain, controller."""
