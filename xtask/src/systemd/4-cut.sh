judge "the root came back: $(findmnt -no FSTYPE,OPTIONS /)" touch /root/trial/writable
judge 'shaping after a cut of the power under load' within 10 running
note "$(now) s after the start"
serve
held 'a download after it'
judge 'one table, and no note of a dead box' test "$(nft list tables | grep -c narrows)" = 1
judge 'dpkg finds nothing half done' test -z "$(dpkg --audit)"

# In the middle of an upgrade: while dpkg says that the package is not whole.
download 5000000 &
dpkg -i /root/trial/narrows_1.deb > /run/trial.dpkg 2>&1 &
until dpkg-query -W -f '${Status}' narrows 2>&1 | grep -q -v 'ok installed'; do :; done
note "cut while the package is $(dpkg-query -W -f '${Status}' narrows)"
echo b > /proc/sysrq-trigger
