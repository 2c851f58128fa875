"""What is done about a fault: the ladder of rungs."""
