"""Which of several drivers leads: by a lock on the state folder, or by a lead where they share it.

Called by `driver.main` until this driver leads, and while it does. Must not write entries.
"""
