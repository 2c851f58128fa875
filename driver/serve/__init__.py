"""The sockets of the driver and what is spoken on them: TCP, TLS, HTTP, the port for probes.

Opened by `driver.main`, whether this driver leads or stands by. Must not know what is served.
"""
