# Sessions of short and long connections over one drop-tail bottleneck, in ns-2.35: figure 4 of Yilmaz and Matta (class-based
# isolation), the counterpart of experiments/class-isolation/fig04-phases.toml. By hand: ns peers/ns2/sessions.tcl -seed 1.
#
# Half of the sessions send 10 packets a connection, half 1000; the next connection begins when the last one is acknowledged. Prints
# Jain's index of what sessions of a kind had acknowledged in slices of 20 s, and that in packets a slice, on average.

remove-all-packet-headers
add-packet-header IP TCP Flags

array set opt {
    n 60  parts 2  alone 0  access 10  spread_ms 0
    rto_initial_s 6  warmup_s 60  duration_s 200  slice_s 20  seed 1
}
source [file join [file dirname [info script]] settings.tcl]
# The short sessions alone, in a pipe of one part.
if {$opt(alone)} { set opt(parts) 1 }
set kinds [expr $opt(alone) ? 1 : 2]

# ns-2 as it was in 2001: 576 bytes are the whole packet, no SYN, one packet to begin with, 6 s before there is a sample.
Agent/TCP set packetSize_ 576
Agent/TCP set useHeaders_ false
Agent/TCP set window_ 128
Agent/TCP set tcpTick_ 0.5
Agent/TCP set minrto_ 0
Agent/TCP set rtxcur_init_ $opt(rto_initial_s)
Agent/TCP set syn_ false
Agent/TCP set delay_growth_ false
Agent/TCP set windowInit_ 1
Agent/TCP set singledup_ 0

global defaultRNG
$defaultRNG seed $opt(seed)
set unit 2.5e6
set ns [new Simulator]
set left [$ns node]
set right [$ns node]
$ns duplex-link $left $right [expr $opt(parts) * $unit] 40ms DropTail
$ns queue-limit $left $right [expr 50 * $opt(parts)]
$ns queue-limit $right $left 1000
set starts [new RandomVariable/Uniform]
$starts set min_ 0
$starts set max_ 5
set longer [new RandomVariable/Uniform]
$longer set min_ 0
$longer set max_ [expr $opt(spread_ms) / 1000.0]

# A sender and a receiver with nodes of their own.
proc pair {i} {
    global ns left right opt unit longer tcp sink
    set from [$ns node]
    set to [$ns node]
    $ns duplex-link $from $left [expr $opt(access) * $unit] [expr 0.005 + [$longer value]] DropTail
    $ns duplex-link $right $to [expr $opt(access) * $unit] 5ms DropTail
    foreach {a b} [list $from $left $right $to] {
        $ns queue-limit $a $b 1000
        $ns queue-limit $b $a 1000
    }
    set tcp($i) [new Agent/TCP/Reno]
    set sink($i) [new Agent/TCPSink]
    $ns attach-agent $from $tcp($i)
    $ns attach-agent $to $sink($i)
    $ns connect $tcp($i) $sink($i)
}

# Called by an agent whose data are all acknowledged; telnet's agents are no sessions.
Agent/TCP instproc done {} {
    global session finished size ns
    if {![info exists session($self)]} { return }
    set i $session($self)
    incr finished($i) $size($i)
    $ns at [expr [$ns now] + 1e-9] "begin $i"
}

# A connection begins: nothing is remembered of the last.
proc begin {i} {
    global tcp sink size
    $tcp($i) reset
    $sink($i) reset
    $tcp($i) advance $size($i)
}

set sessions [expr $kinds * $opt(n)]
for {set i 0} {$i < $sessions} {incr i} {
    pair $i
    set session($tcp($i)) $i
    set size($i) [expr $i < $opt(n) ? 10 : 1000]
    set finished($i) 0
    $ns at [$starts value] "begin $i"
}
for {set i $sessions} {$i < $sessions + 3 * $kinds} {incr i} {
    pair $i
    set keys [new Application/Telnet]
    $keys set interval_ 1.0
    $keys attach-agent $tcp($i)
    $ns at [$starts value] "$keys start"
}

proc acknowledged {i} {
    global tcp size finished
    set now [expr [$tcp($i) set ack_] + 1]
    return [expr $finished($i) + ($now > 0 && $now < $size($i) ? $now : 0)]
}

proc sum {list} { expr [join $list +] + 0.0 }

proc jain {list} {
    set squares [list 0.0]
    foreach x $list { lappend squares [expr 1.0 * $x * $x] }
    expr pow([sum $list], 2) / ([llength $list] * [sum $squares])
}

set before {}
proc slice {} {
    global ns opt before sessions kinds indices packets
    set now {}
    for {set i 0} {$i < $sessions} {incr i} { lappend now [acknowledged $i] }
    if {[$ns now] > $opt(warmup_s) + 1} {
        set got {}
        foreach a $now b $before { lappend got [expr $a - $b] }
        for {set k 0} {$k < $kinds} {incr k} {
            set of [lrange $got [expr $k * $opt(n)] [expr ($k + 1) * $opt(n) - 1]]
            lappend indices($k) [jain $of]
            lappend packets($k) [sum $of]
        }
    }
    set before $now
    $ns at [expr [$ns now] + $opt(slice_s)] slice
}

proc tell {} {
    global kinds indices packets
    for {set k 0} {$k < $kinds} {incr k} {
        set slices [llength $indices($k)]
        puts [format "%s: index %.3f, %.0f packets a slice" [lindex {short long} $k] \
            [expr [sum $indices($k)] / $slices] [expr [sum $packets($k)] / $slices]]
    }
    exit 0
}

$ns at 0 slice
$ns at [expr $opt(warmup_s) + $opt(duration_s) + 0.01] tell
$ns run
