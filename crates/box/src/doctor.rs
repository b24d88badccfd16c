//! Abilities of this machine. Whatever can be tried is tried, in a network namespace that goes when the trial ends,
//! so the answer is what would happen and nothing is touched.

use std::path::Path;
use std::process::{Command, Stdio};

use caps::{CapSet, Capability};
use narrows_netio::links::Interface;
use narrows_netio::xdp;
use nix::sched::{CloneFlags, unshare};

use super::bypass;
use super::interface_names::Named;
use super::nfqueue::Nfqueue;
use super::packet_pair::PacketPair;
use super::rules::{Filter, Rules, Tool};
use super::run::bridges_cut;
use super::state;
use super::xdp_pair::XdpPair;

/// Use for which a finding is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// `narrows run` in its default form.
    Run,
    /// `narrows run --backend packet`.
    Packet,
    /// Part of `narrows run` that few people use.
    Feature,
}

/// A question and its answer.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Question in a few words.
    pub what: &'static str,
    /// Use that needs a yes.
    pub need: Need,
    /// The answer: what was found, or what is wrong and the remedy.
    pub answer: Result<String, String>,
}

/// Examines this machine for every part of the program.
#[must_use]
pub fn examine(state_dir: &Path) -> Vec<Finding> {
    let tools = Tool::choose(Filter::Auto, false);
    let tools = tools.as_deref();
    let finding = |what, need, answer| Finding { what, need, answer };
    vec![
        finding("permission for queues and rules", Need::Run, capability(Capability::CAP_NET_ADMIN)),
        finding("permission for raw sockets", Need::Run, capability(Capability::CAP_NET_RAW)),
        finding("packet filter", Need::Run, filter(tools)),
        finding("NFQUEUE", Need::Run, apart(nfqueue)),
        finding("rules that queue and let pass", Need::Run, apart(|| rehearse(false))),
        finding("IPv6 rules", Need::Feature, ipv6(tools)),
        finding("bridged traffic", Need::Feature, apart(bridge)),
        finding("bridges that are not cut", Need::Feature, bridges()),
        finding("nothing that goes around the box", Need::Feature, flow_offload()),
        finding("nothing left by a killed box", Need::Feature, leftovers(state_dir)),
        finding("real-time priority", Need::Feature, realtime()),
        finding("packet sockets", Need::Packet, apart(packet_sockets)),
        finding("AF_XDP", Need::Feature, apart(af_xdp)),
    ]
}

/// Whether a box can run, by one back end or the other.
#[must_use]
pub fn can_run(findings: &[Finding]) -> bool {
    let all = |need| findings.iter().filter(|f| f.need == need).all(|f| f.answer.is_ok());
    all(Need::Run) || (all(Need::Packet) && capability(Capability::CAP_NET_ADMIN).is_ok())
}

/// Tries `f` in a network namespace of its own.
fn apart(f: impl FnOnce() -> anyhow::Result<String> + Send + 'static) -> Result<String, String> {
    for needed in [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW] {
        capability(needed).map_err(|e| format!("not tried: {e}"))?;
    }
    let trial = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|e| {
            format!("a network namespace cannot be made ({e}): run as root, on a kernel with CONFIG_NET_NS")
        })?;
        f().map_err(|e| format!("{e:#}"))
    });
    trial.join().unwrap_or_else(|_| Err("the trial failed".to_owned()))
}

fn capability(capability: Capability) -> Result<String, String> {
    match caps::has_cap(None, CapSet::Effective, capability) {
        Ok(true) => Ok(capability.to_string()),
        _ => Err(format!("{capability} is missing: run as root (sudo)")),
    }
}

fn filter(tools: Result<&[Tool], &anyhow::Error>) -> Result<String, String> {
    let tools = tools.map_err(|e| format!("{e:#}"))?;
    let list = Tool::list(tools);
    Ok(match Tool::choose(Filter::Nft, false) {
        Ok(_) => list,
        Err(no_nft) => format!("{list} ({no_nft:#})"),
    })
}

fn ipv6(tools: Result<&[Tool], &anyhow::Error>) -> Result<String, String> {
    match tools {
        Ok(tools) if Tool::knows_ipv6(tools) => Ok(Tool::list(&tools[tools.len() - 1..])),
        _ => Err("no ip6tables can list table mangle: IPv6 goes around the box; install iptables, or load \
         ip6_tables"
            .into()),
    }
}

fn nfqueue() -> anyhow::Result<String> {
    Nfqueue::open(0).map(|_| "the kernel hands packets over".to_owned()).map_err(|e| {
        anyhow::anyhow!("{e}: load the module (modprobe nfnetlink_queue), or use --backend packet")
    })
}

/// Puts rules in and takes them out.
fn rehearse(bridged: bool) -> anyhow::Result<String> {
    let tools = Tool::choose(Filter::Auto, bridged)?;
    let rules = Rules::trial(bridged);
    rules.install(&tools)?;
    for tool in &tools {
        tool.remove(&rules.chain())?;
    }
    Ok(format!("went in and out again ({})", Tool::list(&tools)))
}

fn bridge() -> anyhow::Result<String> {
    if Tool::choose(Filter::Nft, true).is_err()
        && !Path::new("/proc/sys/net/bridge/bridge-nf-call-iptables").exists()
    {
        anyhow::bail!("neither nftables can queue them nor is br_netfilter loaded: modprobe br_netfilter");
    }
    rehearse(true)
}

fn bridges() -> Result<String, String> {
    match Tool::choose(Filter::Auto, true) {
        Ok(tools) => bridges_cut(true, &tools)
            .map_or_else(|| Ok(format!("others stay as they are ({})", Tool::list(&tools))), Err),
        Err(error) => Err(format!("{error:#}")),
    }
}

fn packet_sockets() -> anyhow::Result<String> {
    let link = Interface::find("lo")?;
    let lo = Named { name: "lo", link: &link };
    PacketPair::open(lo, lo).map(|_| "can be opened".to_owned())
}

/// Tries AF_XDP on interfaces made for the trial; the driver of a card may still refuse.
fn af_xdp() -> anyhow::Result<String> {
    xdp::available()?;
    bypass::ip("link add nrx0 type veth peer name nrx1\nlink set nrx0 up\nlink set nrx1 up\n")?;
    let ends = [Interface::find("nrx0")?, Interface::find("nrx1")?];
    let pair = XdpPair::open(Named { name: "nrx0", link: &ends[0] }, Named { name: "nrx1", link: &ends[1] })?;
    Ok(format!("--backend xdp can be used where the driver has native XDP; {} here", pair.words()))
}

fn flow_offload() -> Result<String, String> {
    let Ok(out) = Command::new("nft").args(["list", "ruleset"]).stdin(Stdio::null()).output() else {
        return Ok("no nft here".to_owned());
    };
    if String::from_utf8_lossy(&out.stdout).contains("flowtable") {
        Err("nft has a flowtable: packets it takes are not queued; delete it, or leave LAN and WAN out of it"
            .into())
    } else {
        Ok("no flowtable".to_owned())
    }
}

fn leftovers(dir: &Path) -> Result<String, String> {
    match state::leftovers(dir) {
        Ok(left) if left.is_empty() => Ok("clean".to_owned()),
        Ok(left) => Err(format!("{}: remove it with narrows doctor --clean", left.join("; "))),
        Err(e) => Err(format!("cannot tell: {e:#}")),
    }
}

fn realtime() -> Result<String, String> {
    capability(Capability::CAP_SYS_NICE)
        .map(|_| "--realtime can be used".to_owned())
        .map_err(|e| format!("{e}; only --realtime needs it"))
}
