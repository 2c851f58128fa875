"""What is done about a fault: the next step by what is still open, and who pays for it."""
