"""What ranks show: who waits for whom, where they stand, how they ended. Pure; for the driver."""
