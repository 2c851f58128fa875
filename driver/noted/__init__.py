"""What a journal entry notes beside what happened, for who reads the journal alone. Pure."""
