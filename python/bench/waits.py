"""Waits of a user: the import, and Ctrl-C in the middle of a run.

Printed for docs/how-to/python.md, never asserted.

python python/bench/waits.py
"""

import signal
import subprocess
import sys
import time

TIMES = 7

IMPORT = """
import time
begun = time.process_time()
import numpy
numpys = time.process_time()
import narrows
print(numpys - begun, time.process_time() - numpys)
"""

LONG = """
import time
import narrows
long = narrows.Scenario(name="long", rate="100mbit", rtt="20ms", duration="10h", discipline="fifo:100",
                        traffic=[narrows.Long(flows=20)])
print("begun", flush=True)
try:
    narrows.run(long, seed=1)
except KeyboardInterrupt:
    print(time.time(), flush=True)
"""


def imports():
    """Seconds of processor time: numpy, and the package after it."""
    told = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout
    return [float(word) for word in told.split()]


def interrupted():
    """Seconds from the signal to the exception."""
    with subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        time.sleep(0.5)
        sent = time.time()
        process.send_signal(signal.SIGINT)
        return float(process.communicate()[0]) - sent


def main():
    numpys, ours = zip(*(imports() for _ in range(TIMES)))
    both = sorted(a + b for a, b in zip(numpys, ours))
    ends = sorted(interrupted() for _ in range(TIMES))
    print(
        f"import: {both[0]:.2f} to {both[-1]:.2f} s of processor time, "
        f"of which narrows {min(ours):.3f} to {max(ours):.3f} (goal 0.3)"
    )
    print(f"Ctrl-C: {ends[0]:.2f} to {ends[-1]:.2f} s from the signal to the exception, {TIMES} times")


if __name__ == "__main__":
    main()
