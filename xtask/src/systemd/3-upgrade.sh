serve
judge 'shaping after a start with both interfaces' within 10 running

# A download and pings all the while: a byte or a ping that an upgrade costs is seen.
users ping -q -c 100 -i .2 203.0.113.2 > /run/trial.ping &
pinging=$!
before=$(again)
download 5000000 &
loading=$!
sleep 4
dropped() { narrows status | awk '/^dropped/ { print $2 }'; }
drops=$(dropped)
old=$(systemctl show -p MainPID --value $unit)
dpkg -i /root/trial/narrows_2.deb > /run/trial.dpkg 2>&1 || cat /run/trial.dpkg
judge "dpkg -i under load: $(dpkg-query -W -f '${Version} ${Status}' narrows)" within 10 running
judge 'the upgrade has started the box anew' test "$old" != "$(systemctl show -p MainPID --value $unit)"
wait $pinging
judge "pings across the upgrade: $(grep transmitted /run/trial.ping)" grep -q ' 0% packet loss' /run/trial.ping
wait $loading
read -r intact kbits < /run/trial.download
# It gains by what passed unqueued, at the 3 Mbit/s of the link. TAQ drops of its own will, and what it drops is sent
# again; an upgrade adds nothing to that.
drops=$((drops + $(dropped))) again=$(($(again) - before))
judge "a download of 5 MB across the upgrade: $intact, $kbits kbit/s of 2000; TAQ dropped $drops, $again sent again" \
    test "$intact" = intact -a "$kbits" -gt 1600 -a "$kbits" -lt 2050 -a "$again" -le "$drops"
# Between the old box's last word and the new one's first.
entered() { systemctl show -p "$1TimestampMonotonic" --value $unit; }
gap=$((($(entered ActiveEnter) - $(entered ActiveExit)) / 1000))
judge "packets passed unqueued for at most $gap ms" test "$gap" -lt 2000
note "$(narrows status | grep -E '^(arrived|dropped)' | tr '\n' ';')"

# A firewall beside it.
rules() { nft list tables | grep -c narrows; }
test_rules() { test "$(rules)" = 1; }
page a-firewall-beside-it
judge 'the page'\''s nftables.conf leaves the box its table at reload' test "$(rules)" = 1
download 5000000 &
sleep 2
systemctl reload nftables
judge 'the table stands after another reload under load' test "$(rules)" = 1
wait $!
read -r intact kbits < /run/trial.download
judge "a download across it: $intact, $kbits kbit/s of 2000" test "$intact" = intact -a "$kbits" -lt 2000
users ping -q -c 50 -i .2 203.0.113.2 > /run/trial.ping &
pinging=$!
before=$(again)
download 2000000 &
loading=$!
sleep 2
# As most files of firewalls begin. In one transaction, so that connections keep their addresses.
sed '2i flush ruleset' /etc/nftables.conf > /run/trial.nft
nft -f /run/trial.nft
judge 'a file that flushes all rules takes the box'\''s' test "$(rules)" = 0
judge 'they come back within the 5 s of the page' within 6 test_rules
note "after $took s; $(journalctl -q --no-pager -u $unit -n 2 -o cat | tr '\n' ';')"
wait $pinging
wait $loading
read -r intact kbits < /run/trial.download
# What waited in the box goes with the rules: nf_queue drops it. TCP repairs that; a ping that waited is lost. Until the
# rules are back the link's 3 Mbit/s are what holds the download.
judge "a download of 2 MB across the flush: $intact, $kbits kbit/s, $(($(again) - before)) segments sent again" \
    test "$intact" = intact
note "pings across the flush: $(grep transmitted /run/trial.ping)"
held 'a download after it'
systemctl disable -q nftables

# The plug is pulled under load.
download 5000000 &
sleep 3
echo b > /proc/sysrq-trigger
