"""A small sweep that the tests of sweeps share."""

import narrows

FEW = narrows.Scenario(
    name="few", rate="600kbit", rtt="200ms", mtu=500, duration="45s", discipline="taq", traffic=[narrows.Long(flows=10)]
)
OVER = {"discipline": ["fifo:30", "taq"], "traffic.0.flows": [5, 10, 20]}
SEEDS = [1, 2, 3, 4]


def files(folder):
    """Files that a cache holds."""
    return sorted(folder.glob("*/*.json"))
