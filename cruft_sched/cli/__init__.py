"""The command line: parse, call an op, render, exit code. No rule of the engine lives here."""
