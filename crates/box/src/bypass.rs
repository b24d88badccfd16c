//! Ways for traffic to pass the box while it does not answer: without its rules, or over a bridge in its place.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::rules::{Rules, Tool};

/// Beginning of the name of every bridge that stands in for a box; the number of an interface follows.
const BRIDGE_PREFIX: &str = "nrw-by";

/// The way around a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bypass {
    /// NFQUEUE: the rules that lead to the box go, and come back.
    Rules {
        /// Rules that lead packets to the box.
        rules: Rules,
        /// Tools that put the rules in.
        tools: Vec<Tool>,
    },
    /// Packet sockets: a bridge joins the two interfaces in the box's place.
    Bridge {
        /// Name of the bridge.
        name: String,
        /// Interfaces that are ports of the bridge.
        ports: [String; 2],
    },
    /// AF_XDP: the program in the driver lets frames go to their bridge by itself, and goes with the box.
    Program,
}

impl Bypass {
    /// A bridge in place of a box on these interfaces, of which the first has this number.
    #[must_use]
    pub fn bridge(lan: &str, wan: &str, index: u32) -> Self {
        Self::Bridge { name: format!("{BRIDGE_PREFIX}{index}"), ports: [lan.to_owned(), wan.to_owned()] }
    }

    /// Whether a bridge in a box's place may be called so.
    #[must_use]
    pub fn is_bridge_name(name: &str) -> bool {
        name.strip_prefix(BRIDGE_PREFIX).is_some_and(|index| index.parse::<u32>().is_ok())
    }

    /// Whether both let the same traffic pass, whoever put the rules in.
    #[must_use]
    pub fn same_way(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Rules { rules, tools }, Self::Rules { rules: others, tools: tools_of_other }) => {
                let others = Rules { owner: rules.owner.clone(), ..others.clone() };
                *rules == others && tools == tools_of_other
            }
            _ => self == other,
        }
    }

    /// Name of the bridge; `None` for other ways of bypass.
    #[must_use]
    pub fn bridge_name(&self) -> Option<&str> {
        match self {
            Self::Rules { .. } | Self::Program => None,
            Self::Bridge { name, .. } => Some(name),
        }
    }

    /// Names of the tools that keep the rules, as text; empty where there are none.
    #[must_use]
    pub fn kept_by(&self) -> String {
        match self {
            Self::Rules { tools, .. } => Tool::list(tools),
            Self::Bridge { .. } | Self::Program => String::new(),
        }
    }

    /// Lets traffic pass.
    ///
    /// # Errors
    /// If the kernel refuses, with its words.
    pub fn open(&self) -> anyhow::Result<()> {
        match self {
            Self::Rules { rules, tools } => {
                tools.iter().try_for_each(|tool| tool.silence(&rules.chain()).map(drop))
            }
            Self::Bridge { name, ports: [lan, wan] } => ip(&format!(
                "link add name {name} type bridge\nlink set {lan} master {name}\nlink set {wan} master {name}\n\
                 link set {name} up\n"
            )),
            Self::Program => Ok(()),
        }
    }

    /// Leads it to the box again.
    ///
    /// # Errors
    /// If the kernel refuses, with its words.
    pub fn close(&self) -> anyhow::Result<()> {
        match self {
            Self::Rules { rules, tools } => {
                // A bypass that was opened by half is opened whole first. Rules in a table are replaced without
                // that.
                if !matches!(tools[..], [Tool::Nft(_)]) {
                    self.open()?;
                }
                rules.install(tools)
            }
            Self::Bridge { name, .. } => remove_bridge(name).map(drop),
            Self::Program => Ok(()),
        }
    }

    /// Packets that rules have sent to the box, down and up, since they were put in, where they are counted.
    ///
    /// # Errors
    /// If the packet filter cannot be asked.
    pub fn offered(&self) -> std::io::Result<Option<[u64; 2]>> {
        match self {
            Self::Rules { rules, tools } => tools.first().map_or(Ok(None), |tool| tool.offered(rules)),
            Self::Bridge { .. } | Self::Program => Ok(None),
        }
    }

    /// Puts back what somebody else has taken away or stands behind: a firewall's reload flushes tables, and what comes
    /// after our rules is not seen. Returns whether anything was done.
    ///
    /// # Errors
    /// If the packet filter refuses.
    pub fn restore(&self) -> anyhow::Result<bool> {
        let Self::Rules { rules, tools } = self else { return Ok(false) };
        for tool in tools {
            if !tool.has(rules)? {
                self.close()?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Removes the bridge that stood in for a box. Returns whether there was one.
///
/// # Errors
/// If the kernel refuses.
pub fn remove_bridge(name: &str) -> anyhow::Result<bool> {
    if nix::net::if_::if_nametoindex(name).is_err() {
        return Ok(false);
    }
    ip(&format!("link del {name}\n")).map(|()| true)
}

/// Runs commands of ip(8), one a line, up to the first that fails.
///
/// # Errors
/// With its words.
pub fn ip(script: &str) -> anyhow::Result<()> {
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start ip: install the Debian package iproute2")?;
    child.stdin.take().context("no standard input")?.write_all(script.as_bytes())?;
    let out = child.wait_with_output()?;
    if !out.status.success() {
        bail!("ip refused:\n{script}{}", String::from_utf8_lossy(&out.stderr).trim());
    }
    Ok(())
}
