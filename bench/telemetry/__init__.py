"""What watching costs the ranks: `holdfast bench telemetry`."""
