# Long TCP flows over one bottleneck (drop-tail, RED or SFQ), in ns-2.35: the counterpart of ../ns3/dumbbell.cc. Run by
# `cargo xtask peers`; by hand: ns dumbbell.tcl -flows 120 -seed 1. What each setting means,
# and what corresponds to it elsewhere, is said in docs/explanation/simulator-peers.md.
#
# Prints one line of JSON: counters at the end of the warm-up, at each slice's end and at the end. Nothing is traced: an
# agent's, sink's or queue monitor's own counters are read at those times, so that the run is as fast as ns-2 can be.

# Else every packet carries the headers of all protocols ns-2 knows.
remove-all-packet-headers
add-packet-header IP TCP Flags

array set opt {
    tcp newreno  timestamps 0  dephase_ms 0  queue droptail 
    flows 120  rate_bps 600000  wire_bytes 500  buffer_packets 30
    rtt_min_ms 190  rtt_max_ms 210  start_s 5
    warmup_s 100  duration_s 1000  slice_s 20
    window_packets 100  rto_min_ms 200  seed 1
}
source [file join [file dirname [info script]] settings.tcl]

switch $opt(tcp) {
    newreno { set sender Agent/TCP/Newreno; set receiver Agent/TCPSink }
    sack    { set sender Agent/TCP/Sack1; set receiver Agent/TCPSink/Sack1 }
    default { puts stderr "dumbbell.tcl: -tcp is newreno or sack, not $opt(tcp)"; exit 2 }
}

# ns-2's drop-tail limit counts the packet in service, those of RED and SFQ do not.
set limit [expr $opt(buffer_packets) - 1]
switch $opt(queue) {
    droptail { set discipline DropTail; incr limit }
    red {
        # As published in 1993: `wait_` and `gentle_` came later.
        set discipline RED
        Queue/RED set thresh_ [expr $limit / 4]
        Queue/RED set maxthresh_ [expr $limit * 3 / 4]
        Queue/RED set linterm_ 10
        Queue/RED set q_weight_ 0.002
        Queue/RED set mean_pktsize_ $opt(wire_bytes)
        foreach off {gentle_ wait_ bytes_ queue_in_bytes_ setbit_ adaptive_} { Queue/RED set $off false }
    }
    sfq {
        set discipline SFQ
        Queue/SFQ set maxqueue_ $limit
        Queue/SFQ set buckets_ 1024
    }
    default { puts stderr "dumbbell.tcl: -queue is droptail, red or sfq, not $opt(queue)"; exit 2 }
}

# `packetSize_` is payload; 40 B of header are added, and ts_option_size_ more with timestamps. We hold the size on the wire.
set header [expr 40 + ($opt(timestamps) ? [Agent/TCP set ts_option_size_] : 0)]
Agent/TCP set packetSize_ [expr $opt(wire_bytes) - $header]
Agent/TCP set window_ $opt(window_packets)
Agent/TCP set minrto_ [expr $opt(rto_min_ms) / 1000.0]
Agent/TCP set overhead_ [expr $opt(dephase_ms) / 1000.0]
Agent/TCP set timestamps_ [expr $opt(timestamps) ? "true" : "false"]
# Any new ACK ends the back-off; without it a new RTT sample does (tcp.cc, newack).
Agent/TCP set ts_resetRTO_ [expr $opt(timestamps) ? "true" : "false"]
# An agent with nothing in flight has no timer to run.
Agent/TCP set slow_start_restart_ false

global defaultRNG
$defaultRNG seed $opt(seed)
set starts [new RandomVariable/Uniform]
$starts set min_ 0
$starts set max_ $opt(start_s)

set ns [new Simulator]
# Routes are entered below: shortest paths between all pairs would take n^3 time and n^2 memory.
$ns rtproto Manual

set left [$ns node]
set right [$ns node]
$ns simplex-link $left $right $opt(rate_bps) 0ms $discipline
$ns queue-limit $left $right $limit
$ns simplex-link $right $left $opt(rate_bps) 0ms DropTail
$ns queue-limit $right $left 100000
[$left entry] defaulttarget [[$ns link $left $right] head]
[$right entry] defaulttarget [[$ns link $right $left] head]

set queue [new QueueMonitor]
[$ns link $left $right] attach-monitors [new SnoopQueue/In] [new SnoopQueue/Out] [new SnoopQueue/Drop] $queue

# One direction of a host's own link: 100 times the bottleneck's rate, a queue that never fills, then `next`.
proc access {delay_ms next} {
    global ns opt
    set queue [new Queue/DropTail]
    $queue set limit_ 100000
    set wire [new DelayLink]
    $wire set bandwidth_ [expr 100.0 * $opt(rate_bps)]
    $wire set delay_ [expr $delay_ms / 1000.0]
    $queue target $wire
    $queue drop-target [$ns set nullAgent_]
    $wire target $next
    return $queue
}

for {set i 0} {$i < $opt(flows)} {incr i} {
    # Evenly spread by index, the ends included; a single flow takes the middle.
    set place [expr $opt(flows) > 1 ? double($i) / ($opt(flows) - 1) : 0.5]
    set rtt_ms [expr $opt(rtt_min_ms) + ($opt(rtt_max_ms) - $opt(rtt_min_ms)) * $place]
    set tcp($i) [new $sender]
    set sink($i) [new $receiver]
    # Senders stand at the bottleneck. Of a receiver's host there is its link alone, between router and sink: a node and
    # ns-2's own link would mean the same and take 7 ms of OTcl a flow.
    $ns attach-agent $left $tcp($i)
    $ns attach-agent $right $sink($i)
    set one_way_ms [expr $rtt_ms / 2.0]
    $sink($i) target [access $one_way_ms [$right entry]]
    [$right demux] install [$sink($i) port] [access $one_way_ms $sink($i)]
    if {$opt(queue) == "sfq"} {
        # SFQ hashes addresses, not ports: each sender gets one of its own, 16 apart, which fall into different buckets.
        set address [expr 16 * ($i + 1)]
        $tcp($i) set agent_addr_ $address
        [$left entry] install $address [$left demux]
    }
    $ns connect $tcp($i) $sink($i)
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp($i)
    $ns at [$starts value] "$ftp start"
}

foreach column {at_s arrivals drops departed_packets departed_bytes timeouts delivered_segments} { set $column {} }
proc sample {} {
    global ns opt queue tcp sink at_s arrivals drops departed_packets departed_bytes timeouts delivered_segments
    lappend at_s [$ns now]
    foreach {column counter} {arrivals parrivals_ drops pdrops_ departed_packets pdepartures_ departed_bytes bdepartures_} {
        # Byte counters wrap at 32 bits, with the sign.
        lappend $column [expr {wide([$queue set $counter]) & 0xffffffff}]
    }
    set expiries 0
    set segments {}
    for {set i 0} {$i < $opt(flows)} {incr i} {
        # `nrexmit_` counts expiries of the retransmission timer with data outstanding, nothing else (tcp.cc, timeout).
        incr expiries [$tcp($i) set nrexmit_]
        # In-order bytes with headers, of which the SYN has 40; ours here are whole segments.
        set bytes [expr {wide([$sink($i) set bytes_]) & 0xffffffff}]
        lappend segments [expr {max(0, $bytes - 40) / $opt(wire_bytes)}]
    }
    lappend timeouts $expiries
    lappend delivered_segments "\[[join $segments ,]\]"
}

proc finish {} {
    global opt header at_s arrivals drops departed_packets departed_bytes timeouts delivered_segments
    sample
    set json "{\"payload_bytes\":[expr $opt(wire_bytes) - $header]"
    foreach column {at_s arrivals drops departed_packets departed_bytes timeouts delivered_segments} {
        append json ",\"$column\":\[[join [set $column] ,]\]"
    }
    puts "$json}"
    exit 0
}

set end [expr $opt(warmup_s) + $opt(duration_s)]
$ns at $opt(warmup_s) sample
if {$opt(slice_s) > 0} {
    for {set t [expr $opt(warmup_s) + $opt(slice_s)]} {$t < $end} {set t [expr $t + $opt(slice_s)]} { $ns at $t sample }
}
$ns at $end finish
$ns run
