# In the arm64 machine of scripts/try-arm64: the package to its first verdict, then the box at a rate. PASS and FAIL begin
# what is judged.
set -u
failed=0
judge() {
    local words=$1
    shift
    if "$@"; then echo "PASS $words"; else echo "FAIL $words: $*" && failed=1; fi
}

echo "$(uname -s) $(uname -r) $(uname -m)"
bash ./try-deb narrows.deb
judge 'from the package to the first verdict' test $? = 0

dpkg --force-confold -i narrows.deb >/tmp/dpkg 2>&1 || cat /tmp/dpkg
narrows doctor 2>&1 | head -n 12

# users and world are namespaces, the box is where we are.
for side in eth1:users:192.168.10 eth0:world:203.0.113; do
    IFS=: read -r port name net <<<"$side"
    ip netns add "$name" && ip link add "$port" type veth peer name eth0 netns "$name"
    ip address add "$net.1/24" dev "$port" && ip link set "$port" up
    ip -n "$name" address add "$net.2/24" dev eth0 && ip -n "$name" link set eth0 up
    ip -n "$name" route add default via "$net.1"
done
echo 1 >/proc/sys/net/ipv4/ip_forward
narrows setup --yes --lan eth1 --wan eth0 --down 2mbit --up 500kbit --link ip --output /etc/narrows/eth0.toml | tail -n 2
narrows check /etc/narrows/eth0.toml
narrows run --config /etc/narrows/eth0.toml >/tmp/box 2>&1 &
box=$!
for _ in $(seq 100); do grep -q '^narrows: running' /tmp/box && break || sleep .1; done
cat /tmp/box
ip netns exec world python3 traffic.py serve &
server=$!
sleep 1
ip netns exec users python3 traffic.py get 203.0.113.2 2000000 >/tmp/got
read -r intact kbits </tmp/got
narrows status
# 2 % are the headers of TCP and IP.
judge "a download through the box: $intact, $kbits kbit/s of 2000" \
    awk "BEGIN { exit !(\"$intact\" == \"intact\" && $kbits > 1800 && $kbits < 2000) }"
grep -E '^Vm(RSS|HWM)' "/proc/$box/status"
kill "$box"
wait "$box"
judge 'the box ends in order' test $? = 0
kill "$server"
exit $failed
