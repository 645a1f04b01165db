"""Samples as values of bounded size: one sketch, sketches of batches, histories of periods."""
