# The pages about hardware: every place with every way to configure a network, as the pages say.
note "kernel $(uname -r), $(systemctl --version | head -n 1), $(dpkg-query -W -f '${Package} ${Version} ' netplan.io ifupdown dnsmasq)"
dpkg -i /root/trial/narrows_1.deb > /run/trial.dpkg 2>&1 || fail "dpkg -i: $(cat /run/trial.dpkg)"

place 'a Raspberry Pi' modem pi the-network the-box in-an-emergency
for way in with-systemd-networkd with-netplan with-ifupdown; do
    clean
    sh /root/trial/places ports
    run hardware what-a-router-needs
    for section in two-ports:ports one-port-and-a-switch:switch behind-a-router:router; do
        cables=${section#*:} section=${section%:*}
        place "$section, $way" "$cables" hardware "$section.$way" "$section.the-box" "$section.in-an-emergency"
    done
done
if modprobe pppoe 2> /run/trial.modprobe; then
    run hardware a-modem-for-pppoe
    for way in with-systemd-networkd with-ifupdown; do
        place "PPPoE, $way" provider hardware "a-modem-for-pppoe.$way" a-modem-for-pppoe.the-box \
            a-modem-for-pppoe.in-an-emergency
    done
else skip 'PPPoE: this kernel has no PPP'; fi
clean
sh /root/trial/places ports
run hardware two-ports.with-systemd-networkd
run hardware access-points
judge 'access points: connections share the link' grep -q '^down: .* by taq:share=flow;' /run/trial.access-points
