"""The journal in a database, SQLite or PostgreSQL, and the last lines of ranks beside it."""
