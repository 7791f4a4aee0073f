"""The tool `process`: one program, run once, with all that it starts. docs/process.md says what it promises."""
