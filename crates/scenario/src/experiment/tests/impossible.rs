//! Scenarios that cannot be run end in one sentence before anything runs: key, value, and what was expected.

use super::*;

#[test]
fn impossible_scenarios_end_in_one_sentence() {
    let thin = without_disciplines(THIN);
    let cases: &[(&str, &str, &str, &str)] = &[
        (
            &thin,
            "\"600kbit\"",
            "\"0kbit\"",
            "rate = '0kbit': expected a rate in quotes, a number above 0 and a unit, as \"600kbit\" or \"2mbit\"",
        ),
        (
            &thin,
            "rate = \"600kbit\"",
            "",
            "rate is missing: expected the thin link's rate, as rate = \"600kbit\", or [[link]]s",
        ),
        (
            &thin,
            "\"200ms\"",
            "\"20s\"",
            "rtt = '20s': expected at most 10s of propagation, both ways together",
        ),
        (&thin, "\"200ms\"", "\"9ms..2ms\"", "rtt = '9ms..2ms': expected the lesser time first"),
        (
            &thin,
            "\"200ms\"",
            "200",
            "rtt = 200: expected a time or a range of times with its unit, as \"200ms\" or \"190ms..210ms\"",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\njitter = 10",
            "jitter = 10: expected a time with its unit, as \"200ms\" or \"10s\"",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\njitter = \"1s..2s\"",
            "jitter = '1s..2s': expected one time, not a range, as \"200ms\"",
        ),
        (&thin, "users = 100", "user = 100", "traffic.0.user: no such key: expected 'users'?"),
        (
            &thin,
            "users = 100",
            "users = -5",
            "traffic.0.users = -5: expected a whole number from 1 to 4294967295",
        ),
        (
            &thin,
            "users = 100",
            "users = \"=7/2\"",
            "traffic.0.users = 3.5: expected a whole number from 1 to 4294967295; in an expression use round(), \
             floor() or ceil()",
        ),
        (
            &thin,
            "users = 100",
            "users = 100\nsize = \"-5kB\"",
            "traffic.0.size = '-5kB': expected a size as 64kB, or a law: one of fixed, exp, pareto, bounded_pareto, \
             list, web",
        ),
        (
            &thin,
            "users = 100",
            "users = 100\nsize = 0",
            "traffic.0.size = 0: expected a size: a number of bytes above 0, as in 1500, 64kB, 1.5MB or 64KiB",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 1000000000",
            "traffic.1.flows = 1000000000: expected at most 4000000 connections in all, because each takes about 1500 \
             bytes: 1000000100 of them 1500 GB",
        ),
        (
            &thin,
            "users = 100",
            "users = 100\nconnections = 0",
            "traffic.0.connections = 0: expected a whole number from 1 to 64",
        ),
        (&thin, "\"fifo:30\"", "\"codle\"", "discipline = 'codle': expected "),
        (
            &thin,
            "\"fifo:30\"",
            "\"fifo:0\"",
            "discipline = 'fifo:0': expected fifo to be a limit above 0 in packets or bytes, as fifo:30 or fifo:45000b",
        ),
        (
            &thin,
            "discipline = \"fifo:30\"",
            "",
            "discipline is missing: expected what stands before the link, as discipline = \"fifo:30\" or disciplines = \
             [\"fifo:30\", \"taq\"]",
        ),
        (&thin, "\"objects\"", "\"object\"", "traffic.0.kind = 'object': expected 'objects'?"),
        (
            &thin,
            "\"objects\"",
            "\"ftp\"",
            "traffic.0.kind = 'ftp': expected one of long, files, objects, pages, browser, telnet, udp, calls, log",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nwarmup = \"120s\"",
            "warmup = '120s': expected less than duration = '120s'",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\njitter = \"3min\"",
            "jitter = '3min': expected less than duration = '120s'",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\ndephase = \"11s\"",
            "dephase = '11s': expected at most 10s and less than the duration: a few times what a packet takes on the \
             thin link",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nduration = \"0s\"",
            "duration = '0s': expected a time above 0",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nloss = nan",
            "loss = nan: expected a probability from 0 up to but not 1, or \
             \"gilbert:to_bad=0.01,to_good=0.3,bad=1,good=0\"",
        ),
        (&thin, "name = \"t\"", "name = \"t\"\nmtu = 9", "mtu = 9: expected a whole number from 296 to 9000"),
        (
            &thin,
            "name = \"t\"",
            "name = \"../t\"",
            "name = '../t': expected letters, digits, '-' and '_', because results are called so",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nseeds = []",
            "seeds = []: expected a list of different whole numbers, as [1, 2, 3], or a range, as \"1..10\"",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nseeds = \"1..9000000\"",
            "seeds = '1..9000000': expected a list of different",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nqueue = 9",
            "queue: no such key: expected one of about, access_rate, backend,",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nbackend = \"tun\"",
            "backend = 'tun': expected one of nfqueue, packet",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nwindow_scales = [7, 15]",
            "window_scales = [7, 15]: expected whole numbers from 0 to 14, as [7, 8, 9, 10]",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nsysctl = { \"kernel.x\" = \"1\" }",
            "sysctl.\"kernel.x\" = '1': expected a setting of the network, as \"net.ipv4.tcp_ecn\" = \"1\"",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nsweep = { rate = [] }",
            "sweep.rate = []: expected a list of values, as [20, 40], or a range, as \"20..120 step 20\"",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nsweep = { mtu = \"296..9000 step 1\", overhead = \"0..199 step 1\" }",
            "sweep: 1741000 points under 1 seeds: expected at most 1000000 runs",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nsweep = { mtu = [500, 5] }",
            "mtu = 5: expected a whole number from 296 to 9000 (at mtu=5)",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nprobes = { capture = [\"thn\"] }",
            "probes.capture = [\"thn\"]: expected names of links: 'thin'?",
        ),
        (
            &thin,
            "name = \"t\"",
            "name = \"t\"\nvars = { x = \"taq\" }",
            "vars.x = 'taq': expected a number, a quantity as \"200ms\", or an expression as \"=rate/share\"",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\nstart = \"130s\"",
            "traffic.1.start = '130s': expected a time before the duration",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\nstop = \"130s\"",
            "traffic.1.stop = '130s': expected at most the duration",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\nto = \"client\"",
            "traffic.1.to = 'client': expected the name of a group of hosts: 'clients'?",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\nto = \"servers\"",
            "traffic.1.to = 'servers': expected another group of hosts than from",
        ),
        (
            &thin,
            "flows = 2",
            "flows = 2\ntcp = { preset = \"ns2\" }\nrequest = 300",
            "traffic.1.request = 300: expected the sender to open without a request, because in ns-2's handshake the \
             SYN goes the way of the data; tcp.handshake = 'three_way' allows both",
        ),
        (
            &thin,
            "kind = \"long\"\n    flows = 2",
            "kind = \"udp\"\nflows = 2\nrate = \"64kbit\"\noff = \"1s\"",
            "traffic.1.on is missing: expected a time above 0 where off has one: else nothing is ever sent",
        ),
        (
            &thin,
            "kind = \"long\"\n    flows = 2",
            "kind = \"files\"\nsize = 9",
            "traffic.1.flows is missing: expected how many files, or arrivals = how many per second",
        ),
        (
            &thin,
            "kind = \"long\"\n    flows = 2",
            "kind = \"files\"\nsize = 9\narrivals = 1e9",
            "traffic.1.arrivals = 1000000000.0: expected at most 5e7 transfers in a run: these are 1.2e11",
        ),
        (
            &thin,
            "kind = \"long\"\n    flows = 2",
            "kind = \"log\"\nclients = 2\nfile = \"x\"",
            "traffic.1.file = 'x': expected an access log: a scenario given as text has no folder to look in",
        ),
        (
            &thin,
            "[[traffic]]",
            "[[hosts]]\nname = \"x\"\n[[traffic]]",
            "hosts.0.name: hosts need [[link]]s to be at: the short form has its own",
        ),
        (
            LONG,
            "from = \"b\"",
            "from = \"bb\"",
            "link: node 'b' leads nowhere: expected hosts there or another link; did you mean 'bb'?",
        ),
        (LONG, "at = \"c\"", "at = \"d\"", "hosts.1.at = 'd': expected a node some link names: a, b, c"),
        (
            LONG,
            "at = \"c\"",
            "at = \"cc\"",
            "hosts.1.at = 'cc': expected a node some link names; one names 'c': which of the two is meant?",
        ),
        (LONG, "to = \"b\"", "to = \"a\"", "link.0.to = 'a': expected another node than from = 'a'"),
        (
            LONG,
            "drop = [3, 1]",
            "oneway = true",
            "traffic.0: 'clients' at node 'c' cannot reach 'servers' at node 'a': expected a [[link]], or several in a \
             row, that way, without oneway = true",
        ),
        (
            LONG,
            "drop = [3, 1]",
            "drop = [0]",
            "link.0.drop = [0]: expected packet numbers, the first is 1, as [3, 7]",
        ),
        (
            LONG,
            "name = \"second\"",
            "name = \"a-b\"",
            "link.1.name = 'a-b': expected a name no other link has",
        ),
        (
            LONG,
            "duration = \"10s\"",
            "rate = \"1mbit\"",
            "rate: belongs to the thin-link short form: with [[link]] or [topology] set it there",
        ),
        (
            LONG,
            "to_good=0.3",
            "to_good=0",
            "link.1.loss = 'gilbert:to_bad=0.01,to_good=0': expected a probability",
        ),
        (LONG, "count = 5", "count = 0", "hosts.1.count = 0: expected a whole number from 1 to 4000000"),
        (
            LONG,
            "delayed_ack = \"off\"",
            "delayed_ak = 2",
            "hosts.1.tcp.delayed_ak: no such key: expected 'delayed_ack'?",
        ),
        (
            "name = \"x\"\nrate = \"1mbit\"\ndiscipline = \"taq\"",
            "",
            "",
            "traffic is missing: expected at least one [[traffic]] with a kind",
        ),
        ("name = \n", "", "", "line 1 is no TOML: "),
    ];
    let mut wrong = String::new();
    for (text, find, put, sentence) in cases {
        let text = if find.is_empty() { (*text).to_owned() } else { text.replacen(find, put, 1) };
        let e = all(&text).expect_err(sentence).to_string();
        if !e.starts_with(sentence) || e.contains('\n') {
            wrong += &format!("{e}\ninstead of\n{sentence}\n\n");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
