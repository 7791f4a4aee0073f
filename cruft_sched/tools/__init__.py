"""What an agent may ask to be done. One tool a file, and a literal registry."""
