"""What a site's accounting would know, as far as it follows from the configuration and the jobs: associations, tables, sums."""
