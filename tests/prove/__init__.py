"""What looks for what nobody thought of: a machine that plays the lives of logs, and fuzzing."""
