"""A daemonless durable-workflow engine for agents."""
