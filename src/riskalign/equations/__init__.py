"""The equations: arrays in, arrays out."""
