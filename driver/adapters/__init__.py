"""One file or folder a technology: SQL, WebSockets, clusters, REST. Each owns its exceptions."""
