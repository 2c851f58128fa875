"""Exit codes of `holdfast`, and what the exit of a rank means.

Codes 69, 75 and 78 are those of BSD's sysexits(3); 128 + N is a shell's word for signal N. Kubeflow
takes codes from 128 up as retryable and those below as permanent, and so do we by default.
"""

OK = 0
FAILED = 1
USAGE = 2
UNAVAILABLE = 69
TRY_AGAIN = 75
CONFIGURATION = 78
INTERRUPTED = 130


def of_signal(signal_number: int) -> int:
    """The exit code that stands for a death by `signal_number`."""
    return 128 + signal_number
