//! Our rules by the programs of iptables: in a chain of their own in table `mangle`, last in `FORWARD`. An accepted
//! packet goes on to the next hook, so rules behind ours (as an MSS clamp) would not be seen.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::{CHAIN_PREFIX, Rules, Tool};

/// IPv4 first: `nft`-flavoured programs are second choice, because some kernels lack their compatibility.
const CANDIDATES: [[&str; 2]; 2] = [["iptables-legacy", "iptables"], ["ip6tables-legacy", "ip6tables"]];
/// Files in which the kernel lists the tables that the legacy programs have made.
const TABLES: [&str; 2] = ["/proc/thread-self/net/ip_tables_names", "/proc/thread-self/net/ip6_tables_names"];

/// The programs that work on this machine: IPv4, and IPv6 if the machine has it.
///
/// # Errors
/// If none works for IPv4, with what each said.
pub fn find() -> anyhow::Result<Vec<Tool>> {
    let mut said = String::new();
    let mut find = |names: [&str; 2]| {
        names.into_iter().find_map(|name| match listing(name) {
            Ok(_) => Some(Tool::Iptables(name.to_owned())),
            Err(e) => {
                let first = format!("{e:#}");
                let _ = write!(said, "\n  {}", first.lines().next().unwrap_or_default());
                None
            }
        })
    };
    let (v4, v6) = (find(CANDIDATES[0]), find(CANDIDATES[1]));
    let Some(v4) = v4 else {
        bail!(
            "no iptables here can list table mangle: install the Debian package iptables, or run as root \
             (CAP_NET_ADMIN and CAP_NET_RAW); tried:{said}"
        );
    };
    Ok(std::iter::once(v4).chain(v6).collect())
}

/// Whether a legacy program has made table `mangle`.
pub fn has_mangle() -> bool {
    let has = |path: &&str| {
        std::fs::read_to_string(Path::new(path)).is_ok_and(|t| t.lines().any(|l| l == "mangle"))
    };
    TABLES.iter().any(has)
}

/// Chains of the legacy programs that drop what is forwarded unless a rule accepts it. A program that has no table is
/// not asked: it would make one.
pub fn dropping() -> Vec<String> {
    let mut found = Vec::new();
    for (path, names) in TABLES.into_iter().zip(CANDIDATES) {
        let tables = std::fs::read_to_string(path).unwrap_or_default();
        let names = names.into_iter().filter(|_| tables.lines().any(|line| line == "filter"));
        for name in names {
            let out = Command::new(name).args(["-w", "10", "-S", "FORWARD"]).stdin(Stdio::null()).output();
            if out.is_ok_and(|out| out.stdout.starts_with(b"-P FORWARD DROP")) {
                found.push(format!("chain FORWARD ({name})"));
                break;
            }
        }
    }
    found
}

/// Table `mangle` as a program writes it with `-S`.
///
/// # Errors
/// If the program is missing or refuses.
pub fn listing(name: &str) -> anyhow::Result<String> {
    let out = Command::new(name)
        .args(["-w", "10", "-t", "mangle", "-S"])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !out.status.success() {
        bail!("{name} -t mangle -S: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// Applies a script of `iptables-restore`: all changes or none.
fn apply(name: &str, script: &str) -> anyhow::Result<()> {
    let program = format!("{name}-restore");
    let mut child = Command::new(&program)
        .args(["-w", "10", "--noflush"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {program}"))?;
    child.stdin.take().context("no standard input")?.write_all(script.as_bytes())?;
    let out = child.wait_with_output()?;
    if !out.status.success() {
        bail!("{program} refused:\n{script}{}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}

/// Puts rules in that are not there.
///
/// # Errors
/// If the program refuses.
pub fn put_in(name: &str, rules: &Rules) -> anyhow::Result<()> {
    apply(name, &script(rules))
}

/// Removes chain `chain` and every rule that leads to it. Returns whether there was any.
///
/// # Errors
/// If the program refuses.
pub fn remove(name: &str, chain: &str) -> anyhow::Result<bool> {
    match removal_script(&listing(name)?, chain) {
        Some(script) => apply(name, &script).map(|()| true),
        None => Ok(false),
    }
}

fn script(rules: &Rules) -> String {
    let chain = rules.chain();
    let comment = format!("-m comment --comment \"{}\"", rules.owner);
    // A name's ending is left open by + here.
    let written = |name: &str| name.strip_suffix('*').map_or_else(|| name.to_owned(), |n| format!("{n}+"));
    let wan = written(&rules.wan);
    let way = |from: &str, to: &str| {
        if rules.bridged {
            format!("-m physdev --physdev-is-bridged --physdev-in {from} --physdev-out {to}")
        } else {
            format!("-i {from} -o {to}")
        }
    };
    let (down, up) = (rules.queue, rules.queue + 1);
    // The router's own traffic has a chain of its own: in ours, its wider matches would catch what is forwarded
    // between other interfaces.
    let local = format!("{chain}L");
    let mut queued = Vec::new();
    for lan in rules.lan.iter().map(|name| written(name)) {
        queued.extend([(&chain, way(&wan, &lan), down), (&chain, way(&lan, &wan), up)]);
    }
    let mut hooks = vec![("FORWARD", &chain)];
    if rules.local {
        queued.extend([(&local, format!("-i {wan}"), down), (&local, format!("-o {wan}"), up)]);
        hooks.extend([("INPUT", &local), ("OUTPUT", &local)]);
    }
    let mut s = format!("*mangle\n:{chain} - [0:0]\n");
    if rules.local {
        let _ = writeln!(s, ":{local} - [0:0]");
    }
    for (chain, way, queue) in queued {
        let _ = writeln!(s, "-A {chain} {way} {comment} -j NFQUEUE --queue-num {queue} --queue-bypass");
    }
    for (hook, chain) in hooks {
        let _ = writeln!(s, "-A {hook} {comment} -j {chain}");
    }
    s.push_str("COMMIT\n");
    s
}

/// Chains of ours in a listing.
#[must_use]
pub fn our_chains(listing: &str) -> Vec<String> {
    let chain =
        |line: &str| line.strip_prefix("-N ").filter(|c| c.starts_with(CHAIN_PREFIX)).map(str::to_owned);
    listing.lines().filter_map(chain).filter(|c| !c.ends_with('L')).collect()
}

/// Whether rules stand in a listing: the jump to them is in `FORWARD`, with nobody's behind it but other boxes', and
/// there is one for each interface of the users and direction.
#[must_use]
pub fn stand(listing: &str, rules: &Rules) -> bool {
    let chain = rules.chain();
    let forward: Vec<_> = listing.lines().filter(|line| line.starts_with("-A FORWARD ")).collect();
    let jump = forward.iter().position(|line| line.ends_with(&format!("-j {chain}")));
    let behind = |at: usize| forward[at..].iter().all(|line| line.contains(&format!("-j {CHAIN_PREFIX}")));
    let queues = listing.lines().filter(|line| line.starts_with(&format!("-A {chain} "))).count();
    jump.is_some_and(behind) && queues == 2 * rules.lan.len()
}

/// The transaction that removes `chain` (and its twin for local traffic) from a table listed with `-S`; `None` if
/// nothing of it is there.
fn removal_script(listing: &str, chain: &str) -> Option<String> {
    let ours = [chain.to_owned(), format!("{chain}L")];
    let mut script = String::from("*mangle\n");
    let is_jump = |line: &str| ours.iter().any(|c| line.ends_with(&format!("-j {c}")));
    for line in listing.lines().filter(|l| is_jump(l)) {
        let rule = line.strip_prefix("-A ")?;
        let _ = writeln!(script, "-D {rule}");
    }
    let present: Vec<_> =
        ours.iter().filter(|c| listing.lines().any(|l| l.strip_prefix("-N ") == Some(c.as_str()))).collect();
    for action in ["-F", "-X"] {
        for chain in &present {
            let _ = writeln!(script, "{action} {chain}");
        }
    }
    script.push_str("COMMIT\n");
    (script.lines().count() > 2).then_some(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> Rules {
        Rules {
            lan: vec!["lan0".into()],
            wan: "wan0".into(),
            queue: 40,
            bridged: false,
            local: false,
            owner: "narrows 12".into(),
        }
    }

    #[test]
    fn the_script_queues_both_ways_and_nothing_else() {
        let expected = "*mangle\n:NARROWS-40 - [0:0]\n\
            -A NARROWS-40 -i wan0 -o lan0 -m comment --comment \"narrows 12\" -j NFQUEUE --queue-num 40 \
            --queue-bypass\n\
            -A NARROWS-40 -i lan0 -o wan0 -m comment --comment \"narrows 12\" -j NFQUEUE --queue-num 41 \
            --queue-bypass\n\
            -A FORWARD -m comment --comment \"narrows 12\" -j NARROWS-40\nCOMMIT\n";
        assert_eq!(script(&rules()), expected);
    }

    #[test]
    fn local_traffic_has_a_chain_of_its_own() {
        let script = script(&Rules { local: true, ..rules() });
        for line in [
            ":NARROWS-40L - [0:0]",
            "-A INPUT -m comment --comment \"narrows 12\" -j NARROWS-40L",
            "-A OUTPUT -m comment --comment \"narrows 12\" -j NARROWS-40L",
        ] {
            assert!(script.lines().any(|l| l == line), "{script}");
        }
    }

    #[test]
    fn rules_stand_while_nobody_elses_is_behind_them() {
        let ours = "-A FORWARD -m comment --comment \"narrows 12\" -j NARROWS-40\n\
            -A NARROWS-40 -i a -o b -j NFQUEUE --queue-num 40\n-A NARROWS-40 -i b -o a -j NFQUEUE --queue-num 41\n";
        let listing = |forward: &str| format!("-P FORWARD ACCEPT\n-N NARROWS-40\n{forward}{ours}");
        assert!(stand(&listing("-A FORWARD -p tcp -j TCPMSS\n"), &rules()));
        assert!(stand(&format!("{}-A FORWARD -j NARROWS-42\n", listing("")), &rules()), "another box");
        assert!(!stand(&format!("{}-A FORWARD -p tcp -j TCPMSS\n", listing("")), &rules()));
        assert!(!stand("-P FORWARD ACCEPT\n-N NARROWS-40\n", &rules()), "flushed");
        assert!(!stand(
            &listing("").replace("-i b -o a", "").replace("NFQUEUE --queue-num 41\n", ""),
            &Rules { queue: 4, ..rules() }
        ));
    }

    #[test]
    fn removal_takes_ours_and_leaves_theirs() {
        let listing = "-P FORWARD ACCEPT\n-N NARROWS-40\n-N NARROWS-400\n\
            -A FORWARD -j TTL --ttl-inc 1\n-A FORWARD -m comment --comment \"narrows 12\" -j NARROWS-40\n\
            -A FORWARD -j NARROWS-400\n-A NARROWS-40 -i a -o b -j NFQUEUE --queue-num 40 --queue-bypass\n";
        assert_eq!(
            removal_script(listing, "NARROWS-40").as_deref(),
            Some(
                "*mangle\n-D FORWARD -m comment --comment \"narrows 12\" -j NARROWS-40\n-F NARROWS-40\n\
                 -X NARROWS-40\nCOMMIT\n"
            )
        );
        assert_eq!(removal_script(listing, "NARROWS-4"), None);
        assert_eq!(our_chains(listing), ["NARROWS-40", "NARROWS-400"]);
    }

    #[test]
    fn each_interface_of_the_users_has_its_rules_and_an_open_ending_is_written_so() {
        let many = Rules { lan: vec!["lan0".into(), "ppp*".into()], ..rules() };
        let script = script(&many);
        for way in ["-i wan0 -o lan0", "-i lan0 -o wan0", "-i wan0 -o ppp+", "-i ppp+ -o wan0"] {
            assert!(script.contains(&format!("-A NARROWS-40 {way} -m comment")), "{script}");
        }
        assert!(stand(&script.replace("-m comment --comment \"narrows 12\" ", ""), &many));
        assert!(!stand(&script, &rules()), "one interface less");
    }
}
