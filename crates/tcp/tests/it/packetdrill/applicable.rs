//! The rule by which a script applies to our end hosts: it needs nothing that they do not model. The same list with
//! counts is in `docs/explanation/packetdrill.md`.

use super::host::FIGURES;
use super::python;
use super::script::{Call, Commands, Script, TcpOption, What};

/// Names the first thing that a script needs and an end host of ours lacks; `None` if the script applies.
pub fn lacks(script: &Script, Commands { settings, others }: &Commands) -> Option<&'static str> {
    let called = |name: &[&str]| script.calls().any(|c| name.contains(&c.name.as_str()));
    let word = |word: &str| script.calls().any(|c| c.args.iter().any(|a| a.contains(word)));
    let option = |is: &dyn Fn(&str) -> bool| {
        script
            .packets()
            .any(|(_, p)| p.options.iter().flatten().any(|o| matches!(o, TcpOption::Other(name) if is(name))))
    };
    let set = |name: &str, is: &dyn Fn(&str) -> bool| settings.iter().any(|s| s.0 == name && is(&s.1));
    let shell = |word: &str| others.iter().any(|line| line.contains(word));
    let foreign = |word: &str| {
        script.events.iter().any(|e| matches!(&e.what, What::Foreign(text) if text.starts_with(word)))
    };
    let rows: [(&'static str, bool); 22] = [
        (
            "PSP encryption",
            called(&["psp_rx_assoc", "psp_tx_assoc"]) || script.option("--psp_udp_port").is_some(),
        ),
        ("MD5 and AO signatures", option(&|name| name.starts_with("md5")) || word("TCP_MD5SIG")),
        ("zero copy", word("ZEROCOPY")),
        (
            "TCP Fast Open",
            option(&|name| name.starts_with("FO"))
                || word("FASTOPEN")
                || script.packets().any(|(_, p)| p.has('S') && p.payload > 0),
        ),
        (
            "accurate ECN",
            option(&|name| name.starts_with("ECN") || name.starts_with("e1b"))
                || script
                    .packets()
                    .any(|(_, p)| p.has('A') || p.flags.contains(|c: char| c.is_ascii_digit())),
        ),
        ("ICMP", foreign("icmp")),
        ("tests of packetdrill itself", script.packets().next().is_none() || script.fails),
        ("memory of sockets (SO_RCVBUF, tcp_rmem)", {
            word("SO_RCVBUF") || settings.iter().filter(|s| s.0 == "tcp_rmem").count() > 1
        }),
        ("readiness of sockets (poll, epoll, TCP_NOTSENT_LOWAT)", {
            called(&["poll", "epoll_create", "epoll_ctl", "epoll_wait"]) || word("NOTSENT_LOWAT")
        }),
        ("time stamps of the socket (SO_TIMESTAMPING)", word("SO_TIMESTAMPING")),
        ("marks between writes (MSG_EOR, MSG_MORE, TCP_CORK)", {
            ["MSG_EOR", "MSG_MORE", "TCP_CORK"].iter().any(|w| word(w))
        }),
        ("other ways of the socket (sendfile, splice, TCP_INQ, bad pointers)", {
            called(&["sendfile", "splice", "pipe"]) || word("TCP_INQ") || script.calls().any(is_broken)
        }),
        ("TCP_USER_TIMEOUT", word("TCP_USER_TIMEOUT") || called(&["ioctl"]) && word("SIOCOUTQ")),
        ("a full send buffer", script.calls().any(is_cut)),
        ("path MTU discovery and probing", set("tcp_mtu_probing", &|v| v != "0") || word("IP_MTU_DISCOVER")),
        ("a route with settings of its own", shell("ip route") || shell("ip tcp_metrics set")),
        ("a device that drops or paces (tc)", others.iter().any(|line| is_shaping(line))),
        ("urgent data", script.packets().any(|(_, p)| p.urgent)),
        ("congestion controls of other modules", {
            set("tcp_congestion_control", &|v| !["cubic", "reno"].contains(&v)) || word("TCP_CONGESTION")
        }),
        ("Linux's HyStart (the preset has HyStart++)", shell("hystart_detect")),
        ("figures that are not kept", {
            script.python().any(|code| python::reads(code).iter().any(|n| !FIGURES.contains(&n.as_str())))
        }),
        ("other packets", foreign("")),
    ];
    rows.iter().find(|row| row.1).map(|row| row.0)
}

/// A call that is wrong on purpose.
fn is_broken(call: &Call) -> bool {
    ["EFAULT", "EINVAL", "EMSGSIZE"].iter().any(|e| call.result.contains(e))
}

/// A write that the send buffer cut.
fn is_cut(call: &Call) -> bool {
    if !["write", "send", "sendto"].contains(&call.name.as_str()) {
        return false;
    }
    let cut = call.number(2).zip(call.returns()).is_some_and(|(size, done)| done >= 0 && done < size);
    cut || call.result.contains("EAGAIN")
}

fn is_shaping(line: &str) -> bool {
    line.starts_with("tc ") && (line.contains("limit 0") || line.contains(" fq") || line.contains("netem"))
}
