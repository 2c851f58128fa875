"""The turns of a job's life: epochs, leaving nodes in peace, its end."""
