//! `narrows setup`: from the interfaces of this machine and the rates of its link to a settings file, and a start.
//!
//! What flags do not say is asked on the terminal; with `--yes` nothing is asked. Nothing is written before everything
//! is known, shown and checked.

mod ask;
mod file;
mod measure;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use narrows_box::{self as live, Found, Options, Source};

use ask::Ask;

use crate::SUCCESS;

/// Folder where the packages' unit looks for settings.
const SETTINGS: &str = "/etc/narrows";

/// Arguments of `narrows setup`.
#[derive(clap::Args)]
pub struct Args {
    /// Interface of the wide network [default: the one with the default route]
    #[arg(long, value_name = "IF")]
    wan: Option<String>,
    /// Interface of the users
    #[arg(long, value_name = "IF")]
    lan: Option<String>,
    /// Rate of the link to the users, as 600kbit: 2 to 5 % below what it carries; auto: found and followed
    #[arg(long, value_name = "RATE")]
    down: Option<String>,
    /// Rate of the link from the users, as 600kbit; auto: found and followed
    #[arg(long, value_name = "RATE")]
    up: Option<String>,
    /// Watch the interface for so many seconds while you make the link busy, and set 95 % of its best rate
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "30",
        value_parser = clap::value_parser!(u64).range(5..=600), conflicts_with_all = ["down", "up"])]
    measure: Option<u64>,
    /// Headers that the rates include beside the IP packet
    #[arg(long, value_name = "KIND")]
    link: Option<LinkKind>,
    /// Begin by following and reporting, changing nothing
    #[arg(long)]
    observe: bool,
    /// Settings file to write [default: /etc/narrows/WAN.toml]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace a settings file that exists
    #[arg(long)]
    overwrite: bool,
    /// Start the box when the file is written
    #[arg(long)]
    start: bool,
    /// Ask nothing: take flags and what can be found
    #[arg(long)]
    yes: bool,
}

/// The table of docs/how-to/run.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LinkKind {
    /// IP packets alone, as most speed tests do: satellite, LTE
    Ip,
    /// Ethernet frames
    Ethernet,
    /// Cable (DOCSIS)
    Cable,
    /// VDSL with PPPoE
    Vdsl,
    /// ADSL with PPPoE over LLC
    Adsl,
}

impl LinkKind {
    /// Lines of the settings file for this kind of link.
    fn keys(self) -> &'static str {
        match self {
            Self::Ip => "",
            Self::Ethernet => "overhead = 14\n",
            Self::Cable => "overhead = 18\nmpu = 64\n",
            Self::Vdsl => "overhead = 30\nframing = \"ptm\"\n",
            Self::Adsl => "overhead = 40\nframing = \"atm\"\n",
        }
    }
}

/// Content of the settings file.
struct Plan {
    lan: String,
    wan: String,
    /// Rates towards the users and from the users.
    rates: [Option<String>; 2],
    link: LinkKind,
    observe: bool,
}

impl Plan {
    fn text(&self) -> String {
        let mut text = format!(
            "# Written by narrows setup. `narrows check FILE` says what it means, `narrows run --help` what else there \
             is.\nlan = {:?}\nwan = {:?}\n",
            self.lan, self.wan
        );
        for (key, rate) in ["down", "up"].into_iter().zip(&self.rates) {
            if let Some(rate) = rate {
                text += &format!("{key} = {rate:?}\n");
            }
        }
        text += self.link.keys();
        if self.observe {
            text +=
                "# It follows and reports, and changes nothing. Take this out and reload, and it shapes.\n";
            text += "observe = true\n";
        }
        text
    }
}

/// Runs the command.
pub fn main(args: Args) -> anyhow::Result<u8> {
    let ask = Ask::new(args.yes)?;
    let found = live::interfaces()?;
    let wan = ask.interface(&found, Side::Wan, args.wan.as_deref(), None)?;
    let lan = ask.interface(&found, Side::Lan, args.lan.as_deref(), Some(&wan))?;
    let (rates, only_observe) = rates(&args, &ask, &wan)?;
    let shaped = rates.iter().any(Option::is_some);
    let link = match args.link {
        Some(link) => link,
        None if shaped => ask.link()?,
        None => LinkKind::Ip,
    };
    let file = args.output.clone().unwrap_or_else(|| PathBuf::from(SETTINGS).join(format!("{wan}.toml")));
    let overwrite = args.overwrite || (file.exists() && ask.overwrite(&file)?);

    let mut plan = Plan { lan, wan, rates, link, observe: args.observe || only_observe };
    let fine = show(&plan, &file)?;
    let start = match ask.what_now(&args, &mut plan)? {
        Some(start) => start,
        None => {
            println!("Nothing was written.");
            return Ok(SUCCESS);
        }
    };
    file::write(&file, &plan.text(), overwrite)?;
    println!("Written: {}", file.display());
    if start && !fine {
        bail!("not started: put right what is wrong, then narrows run --config {}", file.display());
    }
    let service = Service::of(&file);
    match (start, service) {
        (true, Some(service)) => service.start(),
        (true, None) => Err(run(&file)),
        (false, service) => {
            let run = format!("narrows run --config {}", file.display());
            println!("To start: {}", service.map_or(run, |s| format!("systemctl enable --now {}", s.0)));
            Ok(SUCCESS)
        }
    }
}

/// Side of the box that an interface is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Wan,
    Lan,
}

/// The rates, and whether there is none because the box shall only look on.
fn rates(args: &Args, ask: &Ask, wan: &str) -> anyhow::Result<([Option<String>; 2], bool)> {
    let given = [("down", &args.down), ("up", &args.up)];
    for (key, rate) in given {
        if let Some(rate) = rate {
            check_rate(key, rate)?;
        }
    }
    if given.iter().any(|(_, rate)| rate.is_some()) {
        return Ok((given.map(|(_, rate)| rate.clone()), false));
    }
    let measured =
        |seconds| measure::rates(wan, Duration::from_secs(seconds)).map(|rates| (rates.map(Some), false));
    match args.measure {
        Some(seconds) => measured(seconds),
        None if args.observe => Ok(([None, None], true)),
        None => match ask.rates()? {
            ask::Rates::Typed(rates) => Ok((rates, false)),
            ask::Rates::Measure => measured(measure::SECONDS),
            ask::Rates::Follow(rates) => Ok((rates, false)),
            ask::Rates::Observe => Ok(([None, None], true)),
        },
    }
}

/// Checks that the settings accept `rate` as a rate.
fn check_rate(key: &str, rate: &str) -> anyhow::Result<()> {
    Options::parse(&format!("{key} = {rate:?}")).map(drop).map_err(|error| {
        // The last line is the reason; those before point into a file that nobody wrote.
        let told = error.to_string();
        anyhow::anyhow!("--{key}: {}", told.lines().last().unwrap_or("not a rate"))
    })
}

/// Shows the settings file and its meaning; returns whether a box could start with the file.
fn show(plan: &Plan, file: &std::path::Path) -> anyhow::Result<bool> {
    let text = plan.text();
    println!("\n{}:\n", file.display());
    text.lines().for_each(|line| println!("    {line}"));
    let flags = Options::parse(&text)?;
    let check = live::check(&Source { flags, ..Source::default() })?;
    println!("\nThat means:");
    check.means.iter().for_each(|line| println!("- {line}"));
    check.doubtful.iter().for_each(|line| println!("CHECK  {line}"));
    check.wrong.iter().for_each(|line| println!("WRONG  {line}"));
    println!();
    Ok(check.wrong.is_empty())
}

/// A unit of systemd for one settings file.
struct Service(String);

impl Service {
    /// Finds the package's unit, where systemd runs and the unit looks for this file.
    fn of(file: &std::path::Path) -> Option<Self> {
        let runs = std::path::Path::new("/run/systemd/system").exists();
        let units = ["/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system"];
        let installed = units.iter().any(|dir| std::path::Path::new(dir).join("narrows@.service").exists());
        let looks = file.parent() == Some(SETTINGS.as_ref()) && file.extension() == Some("toml".as_ref());
        let name = file.file_stem()?.to_str()?;
        (runs && installed && looks).then(|| Self(format!("narrows@{name}")))
    }

    fn start(&self) -> anyhow::Result<u8> {
        let status = Command::new("systemctl")
            .args(["enable", "--now", &self.0])
            .status()
            .context("cannot start systemctl")?;
        if !status.success() {
            bail!("{} did not start: journalctl -u {} tells why", self.0, self.0);
        }
        println!("{} runs, also after a reboot: narrows top shows what it does", self.0);
        Ok(SUCCESS)
    }
}

/// Replaces this program by the box, on this terminal; returns only with an error.
fn run(file: &std::path::Path) -> anyhow::Error {
    use std::os::unix::process::CommandExt as _;
    println!("Ctrl-C ends it; `narrows top` in another terminal shows what it does.");
    let program = std::env::current_exe().unwrap_or_else(|_| "narrows".into());
    let error = Command::new(&program).arg("run").arg("--config").arg(file).exec();
    anyhow::Error::new(error).context(format!("cannot start {}", program.display()))
}

/// An interface in a few words.
fn describe(one: &Found) -> String {
    let mut words = vec![if one.interface.up { "up" } else { "down" }.to_owned()];
    words.extend(one.addresses.iter().filter(|a| a.is_ipv4()).map(ToString::to_string));
    if one.interface.bridge.is_some() {
        words.push("port of a bridge".into());
    }
    if one.default_route {
        words.push("default route".into());
    }
    format!("{}: {}", one.name, words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the box understands every file that `narrows setup` can write.
    #[test]
    fn what_it_writes_is_understood() {
        for link in LinkKind::value_variants() {
            for observe in [false, true] {
                let rates = [Some("600kbit".to_owned()), None];
                let plan = Plan { lan: "eth1".into(), wan: "eth0".into(), rates, link: *link, observe };
                let options = Options::parse(&plan.text()).unwrap();
                assert_eq!(options.down, Some(narrows_units::Rate::from_kbps(600).into()));
                assert_eq!((options.up, options.observe), (None, observe.then_some(true)));
                // The table in docs/how-to/run.md.
                let overhead = [None, Some(14), Some(18), Some(30), Some(40)][*link as usize];
                assert_eq!(options.overhead, overhead, "{link:?}");
                options.settle().unwrap();
            }
        }
    }

    /// The examples of what it offers, in the packages' example too, are what the box understands.
    #[test]
    fn a_link_of_unknown_rate_is_followed() {
        let rates = [Some("600kbit".to_owned()), Some("auto".to_owned())];
        let plan = Plan { lan: "eth1".into(), wan: "eth0".into(), rates, link: LinkKind::Ip, observe: false };
        let settings = Options::parse(&plan.text()).unwrap().settle().unwrap();
        assert_eq!(settings.lanes.map(|lane| lane.follow.is_some()), [false, true]);
        let example = include_str!("../../../../packaging/example.toml");
        let auto = example.replace("up = \"128kbit\"", "").replace("# up = \"auto\"", "up = \"auto\"");
        let settings = Options::parse(&auto).unwrap().settle().unwrap();
        assert_eq!(settings.lanes.map(|lane| lane.follow.is_some()), [false, true]);
    }

    #[test]
    fn a_rate_is_refused_with_the_flag() {
        let told = check_rate("down", "600").unwrap_err().to_string();
        assert!(told.starts_with("--down: '600' is not a rate"), "{told}");
        check_rate("up", "1.5mbit").unwrap();
        check_rate("up", "auto").unwrap();
        check_rate("up", "auto:min=64,max=9000").unwrap();
    }
}
