"""What follows the committed state: the detectors are fed, whatever defect or standstill is met.

Wired by `driver.wiring`, run beside the loop. Must not decide.
"""
