"""The papers' chains, recursions and closed forms, and the field's yardsticks, as functions of numpy arrays.

Every argument that is a number may be an array; arguments are broadcast against each other, and the result has their
common shape (a number if all are numbers). Where an argument is a row of numbers, as the hops of a path, it is the
last axis of its array. Units end the names: ``_s`` seconds, ``_bps`` bit/s, ``_bytes``, ``_packets``; an epoch is a
round trip. Rates, times and sizes may be words as scenarios have them: ``rate_bps="600kbit"``, ``rtt_s=["200ms",
"1s"]``, ``packet_bytes="1.5kB"``. DataArrays of xarray, as a sweep's coordinates and figures, go together by the
names of their dimensions, and the results are DataArrays. An element outside a model's domain is a ``ValueError``
that names the parameter, the value, the domain and the element.

``docs/explanation/models`` compares each of them with its paper and with the simulator.
"""

from narrows.models import (
    aimd,
    buffers,
    burst,
    control,
    fairness,
    latency,
    operating,
    plan,
    sharing,
    spreading,
    taq_chain,
    throughput,
)

__all__ = [
    "aimd",
    "buffers",
    "burst",
    "control",
    "fairness",
    "latency",
    "operating",
    "plan",
    "sharing",
    "spreading",
    "taq_chain",
    "throughput",
]
