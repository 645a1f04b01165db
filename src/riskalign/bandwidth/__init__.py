"""Which bandwidth, and in which coordinates: criteria, their search, and cross-fitted choices."""
