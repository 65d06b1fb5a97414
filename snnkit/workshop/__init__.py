"""What an instructor needs: schedules and facilitator pages held to the notebooks, and a verdict on every machine."""
