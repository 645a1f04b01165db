"""One profile for reproducible runs, one to look for trouble: HYPOTHESIS_PROFILE=explore."""

import os

from hypothesis import HealthCheck, settings

shared = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("reproducible", derandomize=True, max_examples=40, **shared)
settings.register_profile("explore", max_examples=1000, print_blob=True, **shared)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "reproducible"))
