"""Where effects happen. A sink acts and answers; what its answers mean is decided elsewhere."""
