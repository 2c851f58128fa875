"""What the driver knows: frozen values, their tables, and what follows from them alone."""
