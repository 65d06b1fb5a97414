"""What keeps the notebooks in order: building and checking pairs, running them, reporting, and `snnkit doctor`."""
