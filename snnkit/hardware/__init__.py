"""Machines as numbers: the networks that join their processors, and what a training run on many of them can reach."""
