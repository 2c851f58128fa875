"""What went wrong: ends of ranks, their signatures and causes, incidents."""
