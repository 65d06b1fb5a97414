"""Measuring: timing side by side, engines against each other and against other libraries."""
