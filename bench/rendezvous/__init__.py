"""How soon many clients know each other's addresses, and what their groups ask of a store."""
