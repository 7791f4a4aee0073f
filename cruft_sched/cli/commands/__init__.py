"""One command a file. Each is loaded only when it is called."""
