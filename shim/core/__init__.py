"""Decisions without I/O: values, option tables, admission, placement, environment, rendering. Core does not import a backend."""
