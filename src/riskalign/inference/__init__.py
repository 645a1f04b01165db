"""How far chance moves an estimate: its variance, and intervals."""
