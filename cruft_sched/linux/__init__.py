"""The Linux kernel's calls that confine a process, for the rooms above: turns and tools."""
