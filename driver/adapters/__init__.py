"""One file a technology: journal, node sessions, clusters, REST. Each owns its exceptions."""
