"""What is behind a fault: hypotheses, each open or closed by facts, and the next step."""
