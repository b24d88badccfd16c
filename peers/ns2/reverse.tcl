# Long TCP flows over one bottleneck with long flows the other way, in ns-2.35: figures 11 and 12 of Shorten and Leith (adaptive
# AIMD), the counterpart of experiments/adaptive-aimd/fig11-12-reverse.toml. By hand: ns peers/ns2/reverse.tcl -back 20 -seed 1.
#
# Prints the share of the link that is used one way, and the share of its packets that is lost there. Senders back off by a fixed
# factor beta and grow by 2 (1 - beta) packets a round trip: 0.5 is standard TCP, RTTmin / RTTmax what adaptive flows come to.

remove-all-packet-headers
add-packet-header IP TCP Flags

array set opt {
    flows 25  back 20  beta 0.5  tcp sack  queue_packets 125
    rate_bps 155e6  access 10  rtt_ms 40  dephase_ms 1
    start_s 10  warmup_s 40  duration_s 100  seed 1
}
source [file join [file dirname [info script]] settings.tcl]

switch $opt(tcp) {
    reno    { set sender Agent/TCP/Reno; set receiver Agent/TCPSink }
    newreno { set sender Agent/TCP/Newreno; set receiver Agent/TCPSink }
    sack    { set sender Agent/TCP/Sack1; set receiver Agent/TCPSink/Sack1 }
    default { puts stderr "reverse.tcl: -tcp is reno, newreno or sack, not $opt(tcp)"; exit 2 }
}
Agent/TCP set packetSize_ 1460
Agent/TCP set window_ 10000
Agent/TCP set maxburst_ 0
Agent/TCP set overhead_ [expr $opt(dephase_ms) / 1000.0]

global defaultRNG
$defaultRNG seed $opt(seed)
set ns [new Simulator]
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right $opt(rate_bps) 0ms DropTail
$ns queue-limit $left $right $opt(queue_packets)
$ns queue-limit $right $left $opt(queue_packets)
set starts [new RandomVariable/Uniform]
$starts set min_ 0
$starts set max_ $opt(start_s)

# A sender at one end and a receiver at the other, each with a node of its own and a quarter of the round trip to it.
proc flow {from to beta} {
    global ns opt sender receiver starts
    set ends {}
    foreach router [list $from $to] {
        set host [$ns node]
        $ns duplex-link $host $router [expr $opt(access) * $opt(rate_bps)] [expr $opt(rtt_ms) / 4000.0] DropTail
        $ns queue-limit $host $router 100000
        $ns queue-limit $router $host 100000
        lappend ends $host
    }
    set tcp [new $sender]
    set sink [new $receiver]
    # `decrease_num_` is what is left of the window, `increase_num_` what it gains in a round trip (tcp.cc, slowdown, opencwnd).
    $tcp set decrease_num_ $beta
    $tcp set increase_num_ [expr 2 * (1 - $beta)]
    $ns attach-agent [lindex $ends 0] $tcp
    $ns attach-agent [lindex $ends 1] $sink
    $ns connect $tcp $sink
    set ftp [new Application/FTP]
    $ftp attach-agent $tcp
    $ns at [$starts value] "$ftp start"
}
for {set i 0} {$i < $opt(flows)} {incr i} { flow $left $right $opt(beta) }
for {set i 0} {$i < $opt(back)} {incr i} { flow $right $left 0.5 }

set queue [new QueueMonitor]
[$ns link $left $right] attach-monitors [new SnoopQueue/In] [new SnoopQueue/Out] [new SnoopQueue/Drop] $queue
# Byte counters wrap at 32 bits: they are added up as differences.
set last 0
set bytes 0.0
proc count {} {
    global ns queue last bytes
    set now [expr {wide([$queue set bdepartures_]) & 0xffffffff}]
    set bytes [expr {$bytes + (($now - $last) & 0xffffffff)}]
    set last $now
    $ns at [expr [$ns now] + 1] count
}
proc begin {} {
    global queue bytes began arrived dropped
    set began $bytes
    set arrived [$queue set parrivals_]
    set dropped [$queue set pdrops_]
}
proc tell {} {
    global opt queue bytes began arrived dropped
    set lost [expr 1.0 * ([$queue set pdrops_] - $dropped) / ([$queue set parrivals_] - $arrived)]
    set used [expr ($bytes - $began) * 8 / $opt(rate_bps) / $opt(duration_s)]
    puts [format "used %.3f, lost %.2f %%" $used [expr 100 * $lost]]
    exit 0
}
$ns at 0 count
$ns at [expr $opt(warmup_s) + 0.001] begin
$ns at [expr $opt(warmup_s) + $opt(duration_s) + 0.001] tell
$ns run
