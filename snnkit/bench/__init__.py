"""Measuring: contestants side by side, compared before they are timed, and records that say where numbers come from."""
