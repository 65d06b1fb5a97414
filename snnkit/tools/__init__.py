"""Tools for the notebooks: build and check pairs, run them, report, and `snnkit doctor`."""
