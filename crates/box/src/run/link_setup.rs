//! Setup of a link on this machine: its interfaces, how its packets reach the box, and what was changed for that.

use std::os::fd::OwnedFd;

use anyhow::{Context as _, bail};

use crate::bypass::Bypass;
use crate::channel::Channel as _;
use crate::clock;
use crate::handover::{FlowsFile, LinkTerms, Terms};
use crate::interface_names::{Named, covers};
use crate::log::Notice;
use crate::nfqueue::{self, Nfqueue};
use crate::packet_pair::PacketPair;
use crate::privilege::Identity;
use crate::rules::{Rules, Tool};
use crate::settings::{BackendKind, Settings};
use crate::state::{self, Changes, Claim};
use crate::sysctl;
use crate::xdp_pair::{self, XdpPair};
use narrows_netio::links::Interface;

/// A link.
pub struct LinkSetup {
    pub settings: Settings,
    /// Note of the changes made; none before anything is changed, and when another process has taken over.
    pub claim: Option<Claim>,
    pub tools: Vec<Tool>,
    /// Interfaces of the users that exist now.
    lan: Vec<Interface>,
    wan: Interface,
    pub bridged: bool,
}

/// Way on which packets reach a box.
pub struct Way<C> {
    pub channel: C,
    pub bypass: Bypass,
    /// Name of the way on which packets come, in words.
    pub words: String,
}

/// Makes a channel of the descriptors and numbers that another process has left.
pub type Resume<C> = Box<dyn FnOnce(Vec<OwnedFd>, &[u32]) -> anyhow::Result<C> + Send>;

/// Place of the kernel's queues on the way of packets.
enum Place {
    /// In a router, with this interface of the users.
    Router(String),
    /// On a bridge, by a table of its own family.
    Bridge,
    /// On a bridge, by the rules of a router (br_netfilter), for which the kernel cuts merged packets as it should.
    BridgeAsRouter,
}

impl Place {
    fn of(setup: &LinkSetup) -> Self {
        match setup.tools[..] {
            _ if !setup.bridged => Self::Router(setup.settings.lan[0].clone()),
            [Tool::Nft(_)] => Self::Bridge,
            _ => Self::BridgeAsRouter,
        }
    }

    fn channel(&self, queues: Nfqueue) -> anyhow::Result<Nfqueue> {
        match self {
            Self::Router(lan) => Ok(queues.routed_to(lan)),
            Self::Bridge => queues.on_bridge().context("the queues cannot be set up"),
            Self::BridgeAsRouter => Ok(queues),
        }
    }
}

/// The interfaces of a link as they are: those of the users, and that of the wide network. Of names with an open ending
/// none need be there.
pub fn interfaces(settings: &Settings) -> anyhow::Result<(Vec<Interface>, Interface)> {
    let mut lan = Vec::new();
    for name in &settings.lan {
        if name.ends_with('*') {
            let all = Interface::all()?;
            lan.extend(all.into_iter().filter(|(other, _)| covers(name, other)).map(|(_, found)| found));
        } else {
            lan.push(Interface::find(name)?);
        }
    }
    Ok((lan, Interface::find(&settings.wan)?))
}

/// The largest IP packet of these.
pub fn largest(lan: &[Interface], wan: &Interface) -> u32 {
    lan.iter().map(|link| link.mtu).fold(wan.mtu, u32::max)
}

/// Whether all interfaces are ports of one bridge.
pub fn bridged(settings: &Settings, lan: &[Interface], wan: &Interface) -> anyhow::Result<bool> {
    let port = lan.iter().find(|link| link.bridge.is_some());
    let name = || if port.is_some() { settings.users() } else { settings.wan.clone() };
    match (settings.backend, wan.bridge) {
        (BackendKind::Xdp, _) => {
            let [users] = lan else { bail!("lan: the xdp back end joins two interfaces") };
            let lan = Named { name: &settings.lan[0], link: users };
            xdp_pair::check(lan, Named { name: &settings.wan, link: wan }).map(|()| true)
        }
        (BackendKind::Packet, None) if port.is_none() => Ok(false),
        (BackendKind::Packet, _) => {
            let name = name();
            bail!(
                "{name} is a port of a bridge: the packet back end joins the interfaces itself. Take it out \
                 (ip link set {name} nomaster), or use --backend nfqueue with both as ports of the bridge"
            )
        }
        (BackendKind::Nfqueue, Some(bridge)) if lan.iter().all(|link| link.bridge == Some(bridge)) => {
            if settings.local {
                bail!("local = true: on a bridge the router's own traffic does not pass between its ports");
            }
            Ok(true)
        }
        (BackendKind::Nfqueue, None) if port.is_none() => Ok(false),
        (BackendKind::Nfqueue, _) => {
            let name = name();
            bail!(
                "{name} is a port of a bridge and the other interface is not: packets are routed by the bridge \
                 itself; name the bridge instead of its port (ip link show {name} tells its master)"
            )
        }
    }
}

/// Reason why a box on a bridge with these tools would cut bridges, if so. A table of family bridge sees its
/// packets without any change for others.
pub fn bridges_cut(bridged: bool, tools: &[Tool]) -> Option<String> {
    if !bridged || matches!(tools, [] | [Tool::Nft(_)]) { None } else { sysctl::would_cut(tools.len() > 1) }
}

impl LinkSetup {
    /// Looks whether a box with these settings can be here. Nothing is touched.
    pub fn find(mut settings: Settings) -> anyhow::Result<Self> {
        let (lan, wan) = interfaces(&settings)?;
        settings.set_mtu(largest(&lan, &wan));
        let bridged = bridged(&settings, &lan, &wan)?;
        let tools = match settings.backend {
            BackendKind::Nfqueue => Tool::choose(settings.rules, bridged)?,
            BackendKind::Packet | BackendKind::Xdp => Vec::new(),
        };
        if let Some(why) = bridges_cut(bridged, &tools) {
            bail!("{why}");
        }
        Ok(Self { settings, claim: None, tools, lan, wan, bridged })
    }

    /// Whether its rules are those of programs, whose common lock is root's.
    pub fn needs_root(&self) -> bool {
        self.tools.iter().any(|tool| matches!(tool, Tool::Iptables(_)))
    }

    /// Names of the link's interfaces, as messages have them.
    pub fn interfaces(&self) -> String {
        format!("{} <-> {}", self.settings.users(), self.settings.wan)
    }

    /// Sentence that tells that the link runs.
    pub fn running(&self, way: &str) -> String {
        let settings = &self.settings;
        let [down, up] = [0, 1].map(|direction| settings.describe(direction));
        format!("{} by {way}, down {down}, up {up}", self.interfaces())
    }

    /// Notes that the interfaces are taken, and that there is this control socket, before anything is changed.
    pub fn take(&mut self, user: Option<Identity>) -> anyhow::Result<()> {
        self.claim = Some(Claim::take(&self.settings.state_dir, self.changes(), user)?);
        Ok(())
    }

    /// Note of the link, before anything is changed.
    fn changes(&self) -> Changes {
        Changes {
            pid: std::process::id(),
            lan: self.settings.lan[0].clone(),
            more_lan: self.settings.lan[1..].to_vec(),
            wan: self.settings.wan.clone(),
            exclusive: self.settings.backend.is_pair(),
            ..Changes::default()
        }
    }

    pub fn note(&mut self, change: impl FnOnce(&mut Changes)) -> anyhow::Result<()> {
        self.claim.as_mut().map_or(Ok(()), |claim| claim.note(change))
    }

    /// Takes the rules out, and nothing else.
    pub fn remove_rules(&self) -> anyhow::Result<()> {
        self.claim.as_ref().map_or(Ok(()), |claim| claim.remove_rules(&self.tools))
    }

    /// Undoes what was changed, if it is still this process's affair.
    pub fn release(&mut self) -> anyhow::Result<()> {
        self.claim.take().map_or(Ok(()), |claim| claim.release(&self.tools))
    }

    /// Path of the state file of this link.
    pub fn state_file(&self) -> anyhow::Result<std::path::PathBuf> {
        state::path_of(&self.settings.state_dir, &self.settings.lan[0], &self.settings.wan)
    }

    /// File of what is known of flows, for the next start, where one is said to come.
    pub fn flows_file(&self, replace: bool) -> anyhow::Result<Option<FlowsFile>> {
        replace.then(|| FlowsFile::open(&self.state_file()?, clock::now())).transpose()
    }

    /// Listens on two queues, to which nothing leads yet.
    pub fn open_queues(&self, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<Way<Nfqueue>> {
        let (queue, channel) = open_nfqueue(self.settings.queue)?;
        let mut channel = Place::of(self).channel(channel)?;
        channel.answer_http(self.settings.http_503)?;
        if !Tool::knows_ipv6(&self.tools) {
            tell(Notice::Warning("IPv6 is not queued: no ip6tables works here (narrows doctor)".to_owned()));
        }
        let bypass = Bypass::Rules { rules: self.rules(queue), tools: self.tools.clone() };
        let words = format!("NFQUEUE {queue} and {} ({})", queue + 1, bypass.kept_by());
        Ok(Way { channel, bypass, words })
    }

    /// The two interfaces of a back end that joins them.
    fn named<'a>(&'a self, lan: &'a Interface) -> (Named<'a>, Named<'a>) {
        let named = |name: &'a String, link| Named { name, link };
        (named(&self.settings.lan[0], lan), named(&self.settings.wan, &self.wan))
    }

    /// Joins the two interfaces.
    pub fn open_pair(&mut self) -> anyhow::Result<Way<PacketPair>> {
        let [lan] = &self.lan[..] else { bail!("lan: the packet back end joins two interfaces") };
        let (lan, wan) = self.named(lan);
        let mut channel = PacketPair::open(lan, wan)?;
        channel.answer_http(self.settings.http_503)?;
        let bypass = self.bridge();
        self.note(|t| t.bridge = bypass.bridge_name().map(str::to_owned))?;
        Ok(Way { channel, bypass, words: "packet sockets".to_owned() })
    }

    /// Takes what passes between two ports of a bridge.
    pub fn open_ports(&mut self) -> anyhow::Result<Way<XdpPair>> {
        let [lan] = &self.lan[..] else { bail!("lan: the xdp back end joins two interfaces") };
        let (lan, wan) = self.named(lan);
        let mut channel = XdpPair::open(lan, wan)?;
        channel.answer_http(self.settings.http_503)?;
        let words = channel.words();
        Ok(Way { channel, bypass: Bypass::Program, words })
    }

    /// Goes on with the queues of another process.
    pub fn queues_of(&self, bypass: &Bypass) -> Way<Resume<Nfqueue>> {
        let (place, http_503) = (Place::of(self), self.settings.http_503);
        let resume = move |fds, numbers: &[u32]| {
            let queues = Nfqueue::resume(fds, numbers).context("it has no queues")?;
            let mut queues = place.channel(queues)?;
            queues.answer_http(http_503)?;
            Ok(queues)
        };
        let queue = if let Bypass::Rules { rules, .. } = bypass { rules.queue } else { 0 };
        let words = format!("NFQUEUE {queue} and {} ({})", u32::from(queue) + 1, bypass.kept_by());
        Way { channel: Box::new(resume), bypass: bypass.clone(), words }
    }

    /// Goes on with the packet sockets of another process.
    pub fn pair_of(&self, bypass: &Bypass) -> Way<Resume<PacketPair>> {
        let (lan, wan) = (self.settings.lan[0].clone(), self.settings.wan.clone());
        let resume = move |fds, numbers: &[u32]| {
            PacketPair::resume(&lan, &wan, fds, numbers).context("it has no packet sockets")
        };
        Way { channel: Box::new(resume), bypass: bypass.clone(), words: "packet sockets".to_owned() }
    }

    /// Whether this one can go on where a box stops that has these interfaces of its users, and these terms.
    ///
    /// # Errors
    /// The reason why not.
    pub fn goes_on_with(&self, lan: &[String], theirs: &Terms) -> anyhow::Result<()> {
        if self.settings.backend == BackendKind::Xdp || theirs.bypass == Bypass::Program {
            bail!(
                "the memory it shares with the kernel stays its own (AF_XDP); its bridge carries traffic meanwhile"
            );
        }
        if lan != self.settings.lan {
            bail!("its users are on the other side, or behind other interfaces");
        }
        let bypass = match (self.settings.backend, &theirs.bypass) {
            (BackendKind::Nfqueue, Bypass::Rules { rules, .. }) => Bypass::Rules {
                rules: self.rules(self.settings.queue.unwrap_or(rules.queue)),
                tools: self.tools.clone(),
            },
            _ => self.bridge(),
        };
        let own = Terms::new(self.settings.backend.to_string(), &bypass);
        theirs.refusal(&own).map_or(Ok(()), |why| bail!("{why}"))
    }

    /// Whether this one cannot be beside that link of another process.
    pub fn excludes(&self, link: &LinkTerms) -> bool {
        let theirs = Changes {
            lan: link.lan[0].clone(),
            more_lan: link.lan[1..].to_vec(),
            wan: link.wan.clone(),
            exclusive: !matches!(link.terms.bypass, Bypass::Rules { .. }),
            ..Changes::default()
        };
        let queue = match &link.terms.bypass {
            Bypass::Rules { rules, .. } => self.settings.queue.is_some_and(|q| q.abs_diff(rules.queue) < 2),
            _ => false,
        };
        queue || self.changes().excludes(&theirs)
    }

    /// Has packets led to the box, where rules do that.
    pub fn lead_here(&mut self, bypass: &Bypass, tell: &mut dyn FnMut(Notice)) -> anyhow::Result<()> {
        let Bypass::Rules { rules, .. } = bypass else { return Ok(()) };
        // A table of family bridge sees its packets whatever these settings say.
        if self.bridged && !matches!(self.tools[..], [Tool::Nft(_)]) {
            let mut inherited = Vec::new();
            for other in state::living(&self.settings.state_dir)? {
                inherited.extend(other.sysctls);
            }
            let changes = sysctl::for_bridge(&inherited, self.tools.len() > 1)?;
            self.note(|t| t.sysctls.clone_from(&changes))?;
            changes.iter().try_for_each(sysctl::apply)?;
        }
        self.note(|t| t.chain = Some(rules.chain()))?;
        rules.install(&self.tools)?;
        tell(Notice::Detail(format!("rules are in place: chain {}", rules.chain())));
        Ok(())
    }

    /// Bridge that takes the place of packet sockets.
    pub fn bridge(&self) -> Bypass {
        let index = self.lan.first().map_or(0, |lan| lan.index);
        Bypass::bridge(&self.settings.lan[0], &self.settings.wan, index)
    }

    /// Rules for the packets to queue.
    pub fn rules(&self, queue: u16) -> Rules {
        Rules {
            lan: self.settings.lan.clone(),
            wan: self.settings.wan.clone(),
            queue,
            bridged: self.bridged,
            local: self.settings.local,
            owner: format!("narrows {}", std::process::id()),
        }
    }
}

/// Listens on the queue that was asked for, or on the first free one.
fn open_nfqueue(asked: Option<u16>) -> anyhow::Result<(u16, Nfqueue)> {
    let mut queue = asked.unwrap_or_else(nfqueue::free_pair);
    // Another box may take the same number between the look and the opening; or we may not look at all.
    for _ in 0..if asked.is_some() { 0 } else { 16 } {
        match Nfqueue::open(queue) {
            Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::EBUSY)) => queue += 2,
            other => return other.map(|b| (queue, b)).map_err(|e| explain_nfqueue(&e, queue)),
        }
    }
    Nfqueue::open(queue).map(|b| (queue, b)).map_err(|e| explain_nfqueue(&e, queue))
}

fn explain_nfqueue(error: &std::io::Error, queue: u16) -> anyhow::Error {
    let number = [queue, queue + 1];
    let taken = nfqueue::kernel_queues().unwrap_or_default().iter().any(|q| number.contains(&q.number));
    let remedy = match error.raw_os_error() {
        // The kernel says EPERM where a queue belongs to somebody else.
        Some(libc::EPERM | libc::EBUSY) if taken => {
            "another program listens there: choose another number with --queue, or leave it out"
        }
        Some(libc::EPERM) => "CAP_NET_ADMIN is missing in this network namespace: run as root",
        Some(libc::EPROTONOSUPPORT | libc::EINVAL | libc::EOPNOTSUPP) => {
            "this kernel has no nfnetlink_queue: load it (modprobe nfnetlink_queue), or use --backend packet"
        }
        _ => "see `narrows doctor`",
    };
    anyhow::anyhow!("cannot listen on NFQUEUE {queue} and {}: {error}: {remedy}", queue + 1)
}
