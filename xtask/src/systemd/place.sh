# For pages that put a box into a network: what every place has in common.
unit=narrows@wan
chmod 755 /root/trial/lease

# run FOLDER SECTION: the files and commands of that section.
run() { sh -e "/root/trial/$1/$2.sh" > "/run/trial.$2" 2>&1 || fail "the page, $2: $(tail -n 3 "/run/trial.$2")"; }
# Whatever the last place has configured goes.
clean() {
    systemctl disable -q --now provider > /run/trial.clean 2>&1 || true
    pkill pppd
    systemctl stop narrows@wan networking systemd-networkd.socket systemd-networkd > /run/trial.clean 2>&1 || true
    rm -rf /etc/systemd/system/narrows@wan.service.d
    systemctl daemon-reload
    rm -f /etc/systemd/network/* /etc/netplan/* /run/systemd/network/* /etc/network/interfaces.d/* /run/network/ifstate*
    ip link del eth0.10 2> /run/trial.clean || true
    ip link del eth0.20 2> /run/trial.clean || true
}
address() { users busybox udhcpc -q -n -f -t 5 -i far -s /root/trial/lease > /run/trial.lease 2>&1; }

# told: whether status lists a user by an address of the users'.
told() { narrows status > /run/trial.status 2>&1 && grep -oE '192[.]168[.]10[.][0-9]+' /run/trial.status > /run/trial.user; }

# place WORDS CABLES FOLDER NETWORK BOX OUT: from empty cables to a box that holds a rate, and out again. The last four are
# the page's folder and three of its sections.
place() {
    where=$1
    clean
    sh /root/trial/places "$2" > /run/trial.places 2>&1 || fail "$where: the cables: $(cat /run/trial.places)"
    run "$3" "$4"
    serve
    [ "$2" = router ] || within 20 address || fail "$where: no address by DHCP: $(cat /run/trial.lease)"
    if within 20 reaches; then pass "$where: the users reach the world"
    else
        fail "$where: the users do not reach the world"
        { ip -br address; ip route; networkctl; } 2>&1 | sed 's/^/     /'
    fi
    run "$3" "$5"
    judge "$where: the box runs" within 20 running
    held "$where: a download"
    grep -E '^(shaped|arrived)' /run/trial.status | sed 's/^/     /'
    if within 10 told; then pass "$where: a user's own address in status: $(cat /run/trial.user)"
    else fail "$where: no user's own address in status: $(grep 192.168 /run/trial.status)"; fi
    run "$3" "$6"
    judge "$where: out again, and the users reach the world" within 5 reaches
    judge "$where: no rule of it is left" test -z "$(nft list tables | grep narrows)"
    ip netns pids world | xargs -r kill
}
