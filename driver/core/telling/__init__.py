"""From journal entries to sentences."""
