# One SFQ of ns-2.35, given arrivals: the counterpart of ../ns3/queue.cc. Run by `cargo xtask queues`;
# by hand: ns queue.tcl -places 30 -buckets 1024 -bps 1014000 < arrivals, each a line: nanoseconds, flow, bytes.
#
# Prints ns-2's own trace of the queue: `+` a packet comes, `d` it is refused, `-` it is served; the eighth field is the flow.

array set opt {places 30 buckets 1024 bps 1014000}
source [file join [file dirname [info script]] settings.tcl]

set ns [new Simulator]
set left [$ns node]
set right [$ns node]
Queue/SFQ set maxqueue_ $opt(places)
Queue/SFQ set buckets_ $opt(buckets)
$ns simplex-link $left $right $opt(bps) 0ms SFQ
$ns simplex-link $right $left $opt(bps) 0ms DropTail
$ns trace-queue $left $right stdout

proc agent {flow} {
    global ns left right udp
    set udp($flow) [new Agent/UDP]
    $udp($flow) set packetSize_ 65535
    $udp($flow) set fid_ $flow
    set sink [new Agent/Null]
    $ns attach-agent $left $udp($flow)
    $ns attach-agent $right $sink
    $ns connect $udp($flow) $sink
    # SFQ hashes addresses, not ports: neighbours fall into different buckets, also of few.
    $udp($flow) set agent_addr_ [expr 16 * ($flow + 1)]
}

set last 0
while {[gets stdin line] >= 0} {
    foreach {nanos flow bytes} $line break
    if {![info exists udp($flow)]} { agent $flow }
    set last [expr $nanos * 1e-9]
    $ns at $last "$udp($flow) send $bytes"
}
# All that may still wait.
$ns at [expr $last + 8.0 * 1500 * ($opt(places) + 1) / $opt(bps)] "exit 0"
$ns run
