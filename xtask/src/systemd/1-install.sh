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

main=$(systemctl show -p MainPID --value $unit)
armor=$(cat /proc/"$main"/attr/apparmor/current)
note "user $(stat -c %U /proc/"$main"), AppArmor says: $armor; no profile is shipped"
figure=$(systemd-analyze --no-pager security $unit | tail -n 1 | grep -o 'Overall.*')
judge "systemd-analyze security: $figure" holds "$(echo "$figure" | grep -o '[0-9.]*' | head -n 1) <= 2.5"
mode=$(systemctl show -p WatchdogUSec --value $unit)
note "systemd's watchdog: $mode"

# A file of decisions, in the folder that the unit alone may write to.
log=/var/log/narrows/eth0.csv
cp /etc/narrows/eth0.toml /run/trial.toml
sed -i 's/^down *=.*/down = "auto"/' /etc/narrows/eth0.toml
# Keys of the whole file come before its tables.
sed -i "1i decisions = \"$log\"" /etc/narrows/eth0.toml
systemctl restart $unit
download 4000000
judge "down = \"auto\", then a download: $intact, $kbits kbit/s" test "$intact" = intact
judge "decisions of auto: $(wc -l < $log) lines, by $(stat -c '%U, %a' $log)" holds "$(wc -l < $log) >= 2"
cp /run/trial.toml /etc/narrows/eth0.toml
systemctl restart $unit
judge 'the settings of before, and shaping' within 10 running

# The next start has the users alone.
echo eth1 > /root/trial/plugged
