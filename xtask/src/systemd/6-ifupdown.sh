judge 'networkd is not there' test "$(systemctl is-active systemd-networkd)" = inactive
judge "ifupdown has eth1: $(ip -br -4 address show dev eth1)" grep -q 192.168.10.1 /proc/net/fib_trie
serve
sleep 30
late 'by ifupdown, the WAN interface 30 s late' eth0

# A ppp0 that comes and goes. This kernel has no PPP; an IPIP tunnel is of its kind: point to point, no Ethernet, a new
# index each time.
dial() {
    ip tunnel add ppp0 mode ipip local 203.0.113.1 remote 203.0.113.2
    ip link set ppp0 up mtu 1480
    ip address add 10.64.0.1 peer 10.64.0.2 dev ppp0
    ip route add 198.51.100.1 dev ppp0
}
world ip tunnel add tunl mode ipip local 203.0.113.2 remote 203.0.113.1
world ip link set tunl up
world ip address add 198.51.100.1/32 dev lo
world ip route change 192.168.10.0/24 dev tunl
systemctl disable -q --now $unit
unit=narrows@ppp0
sed 's/eth0/ppp0/' /etc/narrows/eth0.toml > /etc/narrows/ppp0.toml
systemctl enable -q --now $unit
note "$(systemctl show -p StatusText --value $unit)"
sleep 600
dial
judge 'a ppp0 (an IPIP tunnel) 10 minutes late' within 10 running
note "after $took s"
held 'a download by it' 198.51.100.1
ip tunnel del ppp0
sleep 60
dial
within 10 reaches 198.51.100.1
held 'a download by the ppp0 that came next' 198.51.100.1
systemctl disable -q --now $unit
rm /etc/narrows/ppp0.toml
unit=narrows@eth0
systemctl enable -q --now $unit

# Out again.
judge 'shaping before the end' within 10 running
dpkg --remove narrows > /run/trial.dpkg 2>&1 || fail "dpkg --remove: $(cat /run/trial.dpkg)"
judge 'dpkg --remove: no box runs' test -z "$(pgrep -x narrows)"
judge 'no rule of it' test -z "$(nft list tables | grep narrows)"
judge 'the users reach the world without it' reaches
judge 'settings stay' test -s /etc/narrows/eth0.toml
dpkg --purge narrows > /run/trial.dpkg 2>&1 || fail "dpkg --purge: $(cat /run/trial.dpkg)"
left=$(find / -xdev -name '*narrows*' ! -path '/root/*' ! -path '/etc/*-' | tr '\n' ' ')
judge "dpkg --purge leaves the administrator's settings alone: $left" test "$left" = '/etc/narrows '
judge 'systemd knows no unit of it' test -z "$(systemctl list-units --all --no-legend 'narrows*')"
note "the user stays, as Debian wants: $(getent passwd narrows)"
