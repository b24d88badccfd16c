"""A signal while something runs."""

import contextlib
import signal


@contextlib.contextmanager
def raises_after(seconds, error):
    """SIGALRM comes after so many seconds, and its handler raises ``error``."""

    def handler(*_):
        raise error

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
