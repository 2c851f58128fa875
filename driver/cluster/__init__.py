"""What is around the driver: the cluster that was chosen, and the effects carried out against it.

Made by `driver.main`, called by the loop after a commit. Must not decide.
"""
