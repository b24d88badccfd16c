judge 'a missing interface does not hold the start up' systemctl is-active -q multi-user.target
serve
sleep 30
late 'the WAN interface 30 s late' eth0

cables unplug eth0
systemctl restart $unit || note 'systemctl restart fails'
sleep 1200
late 'the WAN interface 20 minutes late' eth0

cables unplug eth1
systemctl restart $unit || note 'systemctl restart fails'
sleep 300
late 'the LAN interface 5 minutes late' eth1

# A modem whose interface comes under another name first.
cables unplug eth0
systemctl restart $unit || note 'systemctl restart fails'
cables plug eth0 usb0
sleep 20
ip link set usb0 down
ip link set usb0 name eth0
judge 'an interface that is renamed late' within 10 running

# While it runs: gone for a minute, then there as another.
cables unplug eth0
sleep 60
late 'the WAN interface back after a minute' eth0
echo eth1 eth0 > /root/trial/plugged
