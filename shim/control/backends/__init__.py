"""Where jobs run. Backends do not import each other; the controller knows them by ``base`` alone."""
