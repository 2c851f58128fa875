"""What a job's node keeps that it should not: open files, threads, processes and memory, counted
over hundreds of saves and tens of restarts. Must not ask what it counts: it looks at the machine.
"""
