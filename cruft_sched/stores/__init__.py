"""Where records are kept: the file store, its locks, its one durable write, the audit log."""
