"""What users' scripts of the scenarios look like, bugs among them. Run as ranks, never imported."""
