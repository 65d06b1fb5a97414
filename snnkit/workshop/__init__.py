"""Tools for instructors: schedules and facilitator pages that fit the notebooks, and a verdict on every machine."""
