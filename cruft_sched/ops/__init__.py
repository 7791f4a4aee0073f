"""One use case a file: load, decide, effect, commit. The command line and the Python API call the same functions."""
