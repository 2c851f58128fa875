"""What the ranks' progress means: who waits for whom. Pure; used by the driver's detectors."""
