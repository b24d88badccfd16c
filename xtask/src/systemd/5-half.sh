note "after a cut in dpkg -i the package is: $(dpkg-query -W -f '${Version} ${Status}' narrows)"
judge 'the program is whole, of one version or the other' narrows --version
if within 10 running; then pass 'shaping after a cut in the middle of an upgrade'
else fail "shaping after a cut in the middle of an upgrade: $(systemctl status --no-pager $unit | head -n 12)"; fi
dpkg --configure -a > /run/trial.dpkg 2>&1
dpkg -i /root/trial/narrows_2.deb >> /run/trial.dpkg 2>&1
judge "dpkg --configure -a, dpkg -i: $(dpkg-query -W -f '${Version} ${Status}' narrows)" test -z "$(dpkg --audit)"
judge 'shaping after that' within 10 running

# The next start is ifupdown's, and the world is not there yet.
systemctl disable -q systemd-networkd systemd-networkd.socket
rm /etc/systemd/network/*.network /etc/sysctl.d/30-router.conf
page with-ifupdown
echo eth1 > /root/trial/plugged
