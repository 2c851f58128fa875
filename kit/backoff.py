"""How long to wait before the next try: full jitter, so that a thousand do not come at once."""

import random
from collections.abc import Iterator


def full_jitter(*, base_s: float, cap_s: float, seed: int | None = None) -> Iterator[float]:
    """Yield waits in seconds, each uniform in [0, min(cap_s, base_s * 2**k)].

    Source: M. Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015 ("full
    jitter"). The first wait is at most `base_s`, so that a short cut costs little.
    """
    rng = random.Random(seed)
    ceiling_s = base_s
    while True:
        yield rng.uniform(0.0, ceiling_s)
        ceiling_s = min(cap_s, ceiling_s * 2)
