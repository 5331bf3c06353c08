"""SkyPilot: batch scripts written as its tasks (`shim export sky`), and its tasks as batch scripts (`shim import sky`)."""
