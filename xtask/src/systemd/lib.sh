# What every script of the trial begins with. A line that begins with PASS, FAIL or SKIP is counted.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive
unit=narrows@eth0

pass() { echo "PASS $*"; }
fail() { echo "FAIL $*"; }
skip() { echo "SKIP $*"; }
note() { echo "     $*"; }

# judge WORDS COMMAND...: whether the command succeeds.
judge() {
    words=$1
    shift
    if "$@"; then pass "$words"; else fail "$words: $*"; fi
}

now() { cut -d' ' -f1 /proc/uptime; }
# holds 'A <= B': a comparison of numbers.
holds() { awk "BEGIN { exit !($1) }"; }
since() { awk "BEGIN { printf \"%.1f\", $(now) - $1 }"; }

# within SECONDS COMMAND...: until it succeeds; sets took.
within() {
    most=$1 began=$(now)
    shift
    until "$@"; do
        took=$(since "$began")
        holds "$took < $most" || return 1
        sleep .1
    done
    took=$(since "$began")
}

running() { narrows status > /run/trial.status 2>&1 && grep -q '^shaped to *2.00 Mbit/s' /run/trial.status; }
users() { ip netns exec users "$@"; }
world() { ip netns exec world "$@"; }
cables() { sh /root/trial/cables "$@"; }

# page SECTION: the files and commands of that section of docs/how-to/service.md.
page() { sh -e "/root/trial/page/$1.sh" > /run/trial.page 2>&1 || fail "the page, $1: $(tail -n 3 /run/trial.page)"; }

# The far end of downloads; ends with the machine.
serve() { world python3 /root/trial/traffic.py serve & }
# reaches [ADDRESS]: whether the users have the wide network.
reaches() { users ping -q -c 1 -W 1 "${1:-203.0.113.2}" > /dev/null 2>&1; }
# download BYTES [ADDRESS]: sets kbits and intact.
download() {
    users python3 /root/trial/traffic.py get "${2:-203.0.113.2}" "$1" > /run/trial.download 2>&1 || true
    read -r intact kbits < /run/trial.download || { intact=no kbits=0; }
}
# Segments that the far end has sent again.
again() { world cat /proc/net/snmp | awk '/^Tcp: [0-9]/ { print $13 }'; }
# held WORDS [ADDRESS]: a download of 500 kB is held at 2 Mbit/s, 1000 bits the kbit, TCP's and IP's headers within.
held() {
    download 500000 "${2:-203.0.113.2}"
    if [ "$intact" = intact ] && holds "$kbits > 1600 && $kbits < 2000"; then pass "$1: $kbits kbit/s of 2000"
    else fail "$1: $intact, $kbits kbit/s of 2000; $(cat /run/trial.download)"; fi
}
# late WORDS INTERFACE: plugs it in, and shaping is on within 10 s.
late() {
    before=$(systemctl show -p ActiveState -p SubState -p NRestarts --value $unit | tr '\n' ' ')
    note "before it comes the unit is $before$(systemctl show -p StatusText --value $unit)"
    cables plug "$2"
    if within 10 running; then pass "$1: shaping $took s after $2 came"
    else
        fail "$1: no shaping 10 s after $2 came"
        journalctl -q --no-pager -u "$unit" -n 8 -o cat | sed 's/^/     /'
        systemctl reset-failed $unit
        systemctl restart $unit
    fi
    within 10 reaches || note 'the users do not reach the world'
    held "$1, then a download"
}

systemctl is-system-running --wait > /run/trial.system
note "start: $(cat /run/trial.system) after $(now) s; $(systemctl --failed --no-legend --plain | tr '\n' ';')"
