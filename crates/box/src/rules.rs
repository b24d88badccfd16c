//! The packet filter's rules that send packets to our queues: put in as one transaction, taken out exactly.
//!
//! The kernel's nf_tables keeps them in a table of their own; where it cannot, they stand in a chain of their own of
//! `iptables`. In either case packets pass where nobody listens (`bypass`).

mod iptables;
mod netlink;
mod nft;

use std::fmt;
use std::str::FromStr;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use nft::Queueing;

/// Prefix of every chain of ours; in small letters, of every table.
pub const CHAIN_PREFIX: &str = "NARROWS-";

/// Choice of the packet filter that holds the rules, as people write the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// nf_tables where it can queue packets, else iptables.
    #[default]
    Auto,
    /// The kernel's nf_tables, by netlink.
    Nft,
    /// The programs of iptables.
    Iptables,
}

impl FromStr for Filter {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "nft" => Ok(Self::Nft),
            "iptables" => Ok(Self::Iptables),
            _ => Err(format!("rules = '{text}': expected auto, nft or iptables")),
        }
    }
}

/// Tool that puts rules in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tool {
    /// nf_tables, for all versions of IP.
    Nft(Queueing),
    /// A program like `iptables-legacy`, for one.
    Iptables(String),
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nft(_) => f.write_str("nftables"),
            Self::Iptables(name) => f.write_str(name),
        }
    }
}

impl Tool {
    /// The tools that put rules in on this machine, for each version of IP that it has.
    ///
    /// # Errors
    /// If none works, with what each said.
    pub fn choose(filter: Filter, bridged: bool) -> anyhow::Result<Vec<Self>> {
        let nft = || Queueing::find(bridged).map(|queueing| vec![Self::Nft(queueing)]);
        match filter {
            Filter::Nft => nft().context("rules = \"nft\": leave it out to have iptables instead"),
            Filter::Iptables => iptables::find(),
            Filter::Auto => nft().or_else(|no_nft| {
                iptables::find().with_context(|| format!("nftables cannot be used either ({no_nft:#})"))
            }),
        }
    }

    /// Every tool that may have rules of ours, from whatever box.
    #[must_use]
    pub fn all() -> Vec<Self> {
        // To remove a table it does not matter how it queues.
        let nft = nft::our_chains(false).is_ok().then_some(Self::Nft(Queueing::Statement));
        // To ask a program that has no table would make one.
        let programs = iptables::has_mangle() || nft::has_mangle();
        let iptables = programs.then(|| iptables::find().unwrap_or_default());
        nft.into_iter().chain(iptables.into_iter().flatten()).collect()
    }

    /// Names the tools in a few words.
    #[must_use]
    pub fn list(tools: &[Self]) -> String {
        tools.iter().map(Self::to_string).collect::<Vec<_>>().join(" and ")
    }

    /// Whether all versions of IP are queued.
    #[must_use]
    pub const fn knows_ipv6(tools: &[Self]) -> bool {
        matches!(tools, [Self::Nft(_)] | [_, _, ..])
    }

    /// Name by which people find the rules.
    #[must_use]
    pub fn place(&self, chain: &str) -> String {
        match self {
            Self::Nft(_) => format!("{self} table {}", nft::table(chain)),
            Self::Iptables(_) => format!("{self} chain {chain}"),
        }
    }

    /// Ends what the rules called `chain` do, so that no packet that waits in a queue is lost: of nf_tables a table
    /// without rules stays. Returns whether there were any.
    ///
    /// # Errors
    /// If the packet filter refuses.
    pub fn silence(&self, chain: &str) -> anyhow::Result<bool> {
        match self {
            Self::Nft(_) => nft::silence(chain),
            Self::Iptables(name) => iptables::remove(name, chain),
        }
    }

    /// Removes the rules called `chain`, and with a table of nf_tables what waits in any queue. Returns whether there
    /// were any.
    ///
    /// # Errors
    /// If the packet filter refuses.
    pub fn remove(&self, chain: &str) -> anyhow::Result<bool> {
        match self {
            Self::Nft(_) => nft::remove(chain),
            Self::Iptables(name) => iptables::remove(name, chain),
        }
    }

    /// Names of the box's rules that exist now; with `with_rules` without tables that are empty.
    ///
    /// # Errors
    /// If the packet filter cannot be asked.
    pub fn our_chains(&self, with_rules: bool) -> anyhow::Result<Vec<String>> {
        match self {
            Self::Nft(_) => nft::our_chains(with_rules).context("cannot list the tables of nf_tables"),
            Self::Iptables(name) => Ok(iptables::our_chains(&iptables::listing(name)?)),
        }
    }

    /// Whether these rules stand, where they must.
    ///
    /// # Errors
    /// If the packet filter cannot be asked.
    pub fn has(&self, rules: &Rules) -> anyhow::Result<bool> {
        match self {
            Self::Nft(_) => nft::stand(rules).context("cannot list the rules of nf_tables"),
            Self::Iptables(name) => Ok(iptables::stand(&iptables::listing(name)?, rules)),
        }
    }

    /// Packets that these rules have sent to the queues, down and up, since they were put in; `None` where that is not
    /// to be had for little.
    ///
    /// # Errors
    /// If the packet filter cannot be asked.
    pub fn offered(&self, rules: &Rules) -> std::io::Result<Option<[u64; 2]>> {
        match self {
            Self::Nft(_) => nft::offered(rules),
            Self::Iptables(_) => Ok(None),
        }
    }

    fn put_in(&self, rules: &Rules) -> anyhow::Result<()> {
        match self {
            Self::Nft(queueing) => queueing.put_in(rules),
            Self::Iptables(name) => iptables::put_in(name, rules),
        }
    }
}

/// Names of the packet filter's chains that drop what is forwarded unless a rule accepts it.
#[must_use]
pub fn dropping() -> Vec<String> {
    nft::dropping().into_iter().chain(iptables::dropping()).collect()
}

/// Rules that lead packets to the box's queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Interfaces of the users; `*` at the end stands for any ending.
    pub lan: Vec<String>,
    /// Interface of the wide network.
    pub wan: String,
    /// Queue of packets that go down; the next number is for those that go up.
    pub queue: u16,
    /// Whether all interfaces are ports of one bridge.
    pub bridged: bool,
    /// Whether the router's own traffic over `wan` is queued too.
    pub local: bool,
    /// Owner of the rules, shown to whoever lists the rules.
    pub owner: String,
}

impl Rules {
    /// Rules to try whether any can be put in.
    #[must_use]
    pub fn trial(bridged: bool) -> Self {
        let lan = vec!["lan0".to_owned()];
        let owner = "narrows doctor".to_owned();
        Self { lan, wan: "wan0".to_owned(), queue: 0, bridged, local: !bridged, owner }
    }

    /// Name of the chain.
    #[must_use]
    pub fn chain(&self) -> String {
        format!("{CHAIN_PREFIX}{}", self.queue)
    }

    /// Puts the rules in with every tool. If one refuses, none stays.
    ///
    /// # Errors
    /// If a tool refuses, with its words.
    pub fn install(&self, tools: &[Tool]) -> anyhow::Result<()> {
        for (done, tool) in tools.iter().enumerate() {
            if let Err(error) = tool.put_in(self) {
                for undo in &tools[..done] {
                    undo.remove(&self.chain())?;
                }
                return Err(error);
            }
        }
        Ok(())
    }
}
