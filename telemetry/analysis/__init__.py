"""What ranks show: who waits for whom, and where they stand. Pure; used by the driver."""
