"""What ranks did when, kept: spans as blocks in files or a Redis, as Parquet, and asked by SQL.

Blocks are written by the daemons and read by the driver and the command line, which pack them into
Parquet and ask DuckDB. Off the path on which anything is decided: what fails here costs traces.
"""
