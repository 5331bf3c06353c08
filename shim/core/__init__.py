"""What knows no backend and does no I/O: values, option tables, layout, environment, rendering."""
