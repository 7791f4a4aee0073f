"""The compartment: what a turn's process takes from itself, with the kernel's help, before it runs agent code."""
