# In the arm64 machine of scripts/try-arm64: the package to its first verdict, then the page about the Raspberry Pi, as it
# is written. PASS, FAIL and SKIP begin what is judged. Paths are those of the machine, whose files are in memory.
cd /root/trial || exit
. ./lib.sh
. ./place.sh
failed=0
fail() {
    echo "FAIL $*"
    failed=1
}

note "$(uname -s) $(uname -r) $(uname -m), $(systemctl --version | head -n 1)"
judge 'from the package to the first verdict' bash ./try-deb narrows.deb
dpkg --force-confold -i narrows.deb >/tmp/dpkg 2>&1 || fail "dpkg -i: $(cat /tmp/dpkg)"
narrows doctor 2>&1 | head -n 12
place 'a Raspberry Pi' modem pi the-network the-box in-an-emergency
# What the page shows.
cat /run/trial.the-box
narrows run --config /etc/narrows/wan.toml >/tmp/box 2>&1 &
box=$!
judge 'the box runs, started by hand' within 10 running
serve
download 2000000
note "2 MB: $intact, $kbits kbit/s"
narrows status
grep VmHWM "/proc/$box/status"
kill $box
wait $box
judge 'the box ends in order' test $? = 0
exit $failed
