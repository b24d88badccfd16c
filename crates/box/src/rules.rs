//! The packet filter's rules that send packets to our queues: put in as one transaction, taken out exactly.
//!
//! They stand in a chain of their own in table `mangle`, last in `FORWARD`: an accepted packet goes on to the next
//! hook, so rules behind ours (as an MSS clamp) would not be seen. `--queue-bypass` lets packets pass where nobody
//! listens.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

/// The program family that speaks to the packet filter, for one IP version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// As `iptables-legacy`.
    pub name: String,
}

/// IPv4 first: `nft`-flavoured programs are second choice, because some kernels lack `NFT_QUEUE` or its compatibility.
const CANDIDATES: [[&str; 2]; 2] = [["iptables-legacy", "iptables"], ["ip6tables-legacy", "ip6tables"]];

/// Prefix of every chain of ours.
pub const CHAIN_PREFIX: &str = "NARROWS-";

impl Tool {
    /// The tools that work on this machine: IPv4, and IPv6 if the machine has it.
    ///
    /// # Errors
    /// If none works for IPv4, with what each said.
    pub fn find() -> anyhow::Result<Vec<Self>> {
        let mut said = String::new();
        let mut find = |names: [&str; 2]| {
            names.into_iter().find_map(|name| {
                let tool = Self { name: name.to_owned() };
                match tool.listing() {
                    Ok(_) => Some(tool),
                    Err(e) => {
                        let first = format!("{e:#}");
                        let _ = write!(said, "\n  {}", first.lines().next().unwrap_or_default());
                        None
                    }
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

    /// Table `mangle` as the tool writes it with `-S`.
    ///
    /// # Errors
    /// If the tool is missing or refuses.
    pub fn listing(&self) -> anyhow::Result<String> {
        let out = Command::new(&self.name)
            .args(["-w", "10", "-t", "mangle", "-S"])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", self.name))?;
        if !out.status.success() {
            bail!("{} -t mangle -S: {}", self.name, String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    }

    /// Applies a script of `iptables-restore`, all of it or nothing.
    fn apply(&self, script: &str) -> anyhow::Result<()> {
        let program = format!("{}-restore", self.name);
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

    /// Removes chain `chain` and every rule that leads to it. Returns whether there was any.
    ///
    /// # Errors
    /// If the tool refuses.
    pub fn remove(&self, chain: &str) -> anyhow::Result<bool> {
        match removal_script(&self.listing()?, chain) {
            Some(script) => self.apply(&script).map(|()| true),
            None => Ok(false),
        }
    }
}

/// What is to be queued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Interface of the users.
    pub lan: String,
    /// Interface of the wide network.
    pub wan: String,
    /// Queue of packets that go down; the next number is for those that go up.
    pub queue: u16,
    /// Both interfaces are ports of one bridge.
    pub bridged: bool,
    /// Also the router's own traffic over `wan`.
    pub local: bool,
    /// Who owns the rules, for people who list them.
    pub owner: String,
}

impl Rules {
    /// Our chain.
    #[must_use]
    pub fn chain(&self) -> String {
        format!("{CHAIN_PREFIX}{}", self.queue)
    }

    /// Puts the rules in with every tool. If one refuses, none stays.
    ///
    /// # Errors
    /// If a tool refuses, with its words.
    pub fn install(&self, tools: &[Tool]) -> anyhow::Result<()> {
        let script = self.script();
        for (done, tool) in tools.iter().enumerate() {
            if let Err(error) = tool.apply(&script) {
                for undo in &tools[..done] {
                    undo.remove(&self.chain())?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn script(&self) -> String {
        let chain = self.chain();
        let comment = format!("-m comment --comment \"{}\"", self.owner);
        let (lan, wan) = (&self.lan, &self.wan);
        let way = |from: &str, to: &str| {
            if self.bridged {
                format!("-m physdev --physdev-is-bridged --physdev-in {from} --physdev-out {to}")
            } else {
                format!("-i {from} -o {to}")
            }
        };
        let mut rules = vec![(way(wan, lan), self.queue), (way(lan, wan), self.queue + 1)];
        let mut hooks = vec!["FORWARD"];
        if self.local {
            rules.push((format!("-i {wan}"), self.queue));
            rules.push((format!("-o {wan}"), self.queue + 1));
            hooks.extend(["INPUT", "OUTPUT"]);
        }
        // The router's own traffic has a chain of its own: in ours, its wider matches would catch what is forwarded
        // between other interfaces.
        let chains = [chain.clone(), format!("{chain}L")];
        let mut s = String::from("*mangle\n");
        for chain in &chains[..if self.local { 2 } else { 1 }] {
            let _ = writeln!(s, ":{chain} - [0:0]");
        }
        for (i, (way, queue)) in rules.iter().enumerate() {
            let chain = &chains[i / 2];
            let _ = writeln!(s, "-A {chain} {way} {comment} -j NFQUEUE --queue-num {queue} --queue-bypass");
        }
        for (i, hook) in hooks.iter().enumerate() {
            let _ = writeln!(s, "-A {hook} {comment} -j {}", chains[i.min(1)]);
        }
        s.push_str("COMMIT\n");
        s
    }
}

/// Chains of ours in a listing.
#[must_use]
pub fn our_chains(listing: &str) -> Vec<String> {
    let chain =
        |line: &str| line.strip_prefix("-N ").filter(|c| c.starts_with(CHAIN_PREFIX)).map(str::to_owned);
    listing.lines().filter_map(chain).filter(|c| !c.ends_with('L')).collect()
}

/// Whether the rules of `chain` stand in a listing: the jump to it is in `FORWARD`, with nobody's behind it but other
/// boxes', and there is a rule for each direction.
#[must_use]
pub fn stand(listing: &str, chain: &str) -> bool {
    let forward: Vec<_> = listing.lines().filter(|line| line.starts_with("-A FORWARD ")).collect();
    let jump = forward.iter().position(|line| line.ends_with(&format!("-j {chain}")));
    let behind = |at: usize| forward[at..].iter().all(|line| line.contains(&format!("-j {CHAIN_PREFIX}")));
    let queues = listing.lines().filter(|line| line.starts_with(&format!("-A {chain} "))).count();
    jump.is_some_and(behind) && queues == 2
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
            lan: "lan0".into(),
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
        assert_eq!(rules().script(), expected);
    }

    #[test]
    fn local_traffic_has_a_chain_of_its_own() {
        let script = Rules { local: true, ..rules() }.script();
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
        assert!(stand(&listing("-A FORWARD -p tcp -j TCPMSS\n"), "NARROWS-40"));
        assert!(stand(&format!("{}-A FORWARD -j NARROWS-42\n", listing("")), "NARROWS-40"), "another box");
        assert!(!stand(&format!("{}-A FORWARD -p tcp -j TCPMSS\n", listing("")), "NARROWS-40"));
        assert!(!stand("-P FORWARD ACCEPT\n-N NARROWS-40\n", "NARROWS-40"), "flushed");
        assert!(!stand(
            &listing("").replace("-i b -o a", "").replace("NFQUEUE --queue-num 41\n", ""),
            "NARROWS-4"
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
}
