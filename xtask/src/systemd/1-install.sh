note "kernel $(uname -r), $(systemctl --version | head -n 1)"
judge 'AppArmor is on in this kernel' grep -q apparmor /sys/kernel/security/lsm
page with-systemd-networkd
serve
within 10 reaches || fail 'the users do not reach the world by the networkd example'
download 500000
note "without a box the download has $kbits kbit/s"

dpkg -i /root/trial/narrows_1.deb > /run/trial.dpkg 2>&1
judge "dpkg -i: $(dpkg-query -W -f '${Version} ${Status}' narrows)" grep -q '^Setting up narrows' /run/trial.dpkg
page the-box
judge "narrows setup --start: $(tail -n 1 /run/trial.page)" systemctl is-enabled -q $unit
judge "narrows status answers" within 10 running
held 'a download through the box'
users ping -q -c 20 -i .2 203.0.113.2 > /run/trial.ping
judge "pings through the box: $(grep transmitted /run/trial.ping)" grep -q ' 0% packet loss' /run/trial.ping

# Plain HTTP that has to wait is answered, with the addresses that the unit lets it speak to.
settings=/etc/narrows/eth0.toml
cp $settings /run/trial.toml
{
    grep -vE '^(down|discipline|http_503) *=' /run/trial.toml
    echo 'down = "128kbit"'
    echo 'http_503 = true'
    # A packet takes 94 ms: whoever is served makes a round longer than this.
    echo 'discipline = "taq:round_limit_ms=100,t_wait=10,t_pool=10"'
} > $settings
systemctl reload $unit
slow() { narrows status 2>&1 | grep -q '^shaped to *128'; }
judge 'a reload for http_503' within 10 slow
users ip address add 192.168.10.9/24 dev far
download 200000 &
loading=$!
sleep 4
users timeout 60 python3 /root/trial/traffic.py ask 203.0.113.2 192.168.10.9 > /run/trial.answer 2>&1
judge "who has to wait is answered: $(tail -n 1 /run/trial.answer)" grep -q '^HTTP/1.1 503 ' /run/trial.answer
wait $loading
cp /run/trial.toml $settings
systemctl reload $unit
within 10 running || fail 'a reload of the first settings'

main=$(systemctl show -p MainPID --value $unit)
armor=$(cat /proc/"$main"/attr/apparmor/current)
note "user $(stat -c %U /proc/"$main"), AppArmor says: $armor; no profile is shipped"
figure=$(systemd-analyze --no-pager security $unit | tail -n 1 | grep -o 'Overall.*')
judge "systemd-analyze security: $figure" holds "$(echo "$figure" | grep -o '[0-9.]*' | head -n 1) <= 2.5"
mode=$(systemctl show -p WatchdogUSec --value $unit)
note "systemd's watchdog: $mode"
# The next start has the users alone.
echo eth1 > /root/trial/plugged
