//! `narrows run`: shape and queue a live link; `narrows check`: what that would mean.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use narrows_box::{self as live, BackendKind, Filter, NamedSpec, Options, RateFrom, Source};
use narrows_qdisc::Framing;
use narrows_qdisc::follow::LinkRate;
use narrows_units::Rate;

use crate::log::LogFlags;

/// Arguments of `narrows run`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: Box<Flags>,
    #[command(flatten)]
    log: LogFlags,
}

/// Arguments of `narrows check`.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// The settings, in TOML
    #[arg(value_name = "FILE")]
    config: PathBuf,
}

/// Each has the same name in a settings file, with _ for -.
#[derive(clap::Args)]
struct Flags {
    /// Interface of the users, or several with commas between; + at the end of a name stands for any ending
    #[arg(long, value_name = "IF", value_delimiter = ',')]
    lan: Option<Vec<String>>,
    /// Interface of the wide network
    #[arg(long, value_name = "IF")]
    wan: Option<String>,
    /// Rate of the link to the users, as 600kbit; auto: found and followed, where the link is behind the box; without
    /// it that direction is not shaped
    #[arg(long, value_name = "RATE")]
    down: Option<LinkRate>,
    /// Rate of the link from the users
    #[arg(long, value_name = "RATE")]
    up: Option<LinkRate>,
    /// Discipline of both directions, as taq, taq:mode=paper or fifo:30 [default: taq]
    #[arg(long, value_name = "SPEC")]
    discipline: Option<NamedSpec>,
    /// Discipline of the way down
    #[arg(long, value_name = "SPEC")]
    down_discipline: Option<NamedSpec>,
    /// Discipline of the way up
    #[arg(long, value_name = "SPEC")]
    up_discipline: Option<NamedSpec>,
    /// Bytes the link adds to each IP packet: 14 for Ethernet, 18 for cable (DOCSIS), 30 for VDSL with PPPoE [default:
    /// 0]
    #[arg(long, value_name = "BYTES")]
    overhead: Option<u32>,
    /// What a packet with its overhead counts at least: 64 for a cable modem (DOCSIS) [default: 0]
    #[arg(long, value_name = "BYTES")]
    mpu: Option<u32>,
    /// How the link cuts up what it sends: none, atm (ADSL) or ptm (VDSL) [default: none]
    #[arg(long, value_name = "KIND", value_parser = live::framing)]
    framing: Option<Framing>,
    /// nfqueue: from the kernel's forwarding path; packet: join the interfaces at layer 2; xdp:
    /// between two ports of a bridge, by AF_XDP [default: nfqueue]
    #[arg(long, value_name = "KIND")]
    backend: Option<BackendKind>,
    /// The first of two NFQUEUE numbers; by default two free ones
    #[arg(long, value_name = "N")]
    queue: Option<u16>,
    /// Who keeps the rules that lead packets here: auto, nft (the kernel's nftables) or iptables [default: auto]
    #[arg(long, value_name = "WHO")]
    rules: Option<Filter>,
    /// Also queue this machine's own traffic over the WAN interface
    #[arg(long)]
    local: bool,
    /// Follow and report, touch nothing
    #[arg(long)]
    observe: bool,
    /// Run before ordinary programs (SCHED_FIFO)
    #[arg(long)]
    realtime: bool,
    /// Answer plain HTTP that has to wait with 503 and the user's position
    #[arg(long)]
    http_503: bool,
    /// The control socket [default: /run/narrows/LAN-WAN.sock]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Serve a status page over HTTP there, as 127.0.0.1:8088
    #[arg(long, value_name = "ADDR:PORT")]
    page: Option<SocketAddr>,
    /// Let others than this machine see that page: totals, and to each its own place in the wait queue
    #[arg(long)]
    page_for_others: bool,
    /// Where it is noted what was changed on this machine [default: /run/narrows]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Users with names and rates: a file with the columns of ShapedDevices.csv; read again on SIGHUP
    #[arg(long, value_name = "FILE")]
    circuits: Option<PathBuf>,
    /// Whom it becomes once it is set up; root to stay root [default: narrows, where there is such a user]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Where another program tells the link's rate in lines as "down 2mbit": a file, looked at each second, or
    /// unix:PATH for a socket of datagrams
    #[arg(long, value_name = "FILE")]
    rate_from: Option<RateFrom>,
    /// No less is believed of it [default: 8kbit]
    #[arg(long, value_name = "RATE")]
    rate_min: Option<Rate>,
    /// Nor more [default: 10gbit]
    #[arg(long, value_name = "RATE")]
    rate_max: Option<Rate>,
    /// Take the place of a box that runs on these interfaces, with no packet lost; or go on with what one that stopped
    /// knew of its flows
    #[arg(long)]
    replace: bool,
    /// Wait for interfaces that are not there yet, where a box without it refuses
    #[arg(long)]
    wait: bool,
    /// Settings in TOML under the names of these flags, which win; read again on SIGHUP. A [[link]] table for each of
    /// several links has a name and what differs from what stands above
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Flags {
    fn source(self) -> Source {
        let flags = Options {
            lan: self.lan,
            wan: self.wan,
            down: self.down,
            up: self.up,
            discipline: self.discipline,
            down_discipline: self.down_discipline,
            up_discipline: self.up_discipline,
            overhead: self.overhead,
            mpu: self.mpu,
            framing: self.framing,
            backend: self.backend,
            queue: self.queue,
            rules: self.rules,
            local: self.local.then_some(true),
            observe: self.observe.then_some(true),
            realtime: self.realtime.then_some(true),
            http_503: self.http_503.then_some(true),
            control: self.control,
            page: self.page,
            page_for_others: self.page_for_others.then_some(true),
            state_dir: self.state_dir,
            circuits: self.circuits,
            user: self.user,
            rate_from: self.rate_from,
            rate_min: self.rate_min,
            rate_max: self.rate_max,
            name: None,
            link: Vec::new(),
        };
        Source { flags, config: self.config, replace: self.replace, wait: self.wait }
    }
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let log = args.log.open()?;
    let last = log.clone();
    Ok(match live::run(&args.flags.source(), move |news| log.write(news)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            last.error(&error);
            ExitCode::from(2)
        }
    })
}

/// Runs `narrows check`: success if nothing is wrong.
pub fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let found = live::check(&Source { config: Some(args.config), ..Source::default() })?;
    found.means.iter().for_each(|line| println!("{line}"));
    found.wrong.iter().for_each(|line| println!("WRONG  {line}"));
    if found.wrong.is_empty() {
        println!("Nothing is wrong; nothing was started.");
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::FAILURE)
}
