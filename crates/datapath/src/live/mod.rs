//! The box in line: NFQUEUE and packet-socket back ends, rules, timers, the control socket.
