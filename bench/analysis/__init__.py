"""What it costs to say who holds up a large job: `holdfast bench analysis`."""
