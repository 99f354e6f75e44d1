"""How properties are tried: no deadlines and no complaints about slow drawing, since machines are shared."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("fairway", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fairway")
