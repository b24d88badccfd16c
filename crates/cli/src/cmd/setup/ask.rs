//! Questions on the terminal, and what is taken where nothing may be asked.

use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, bail};
use clap::ValueEnum as _;
use dialoguer::{Confirm, Input, Select};
use narrows_box::Found;

use super::{Args, LinkKind, Plan, Side, check_rate, describe};

/// Dialogue with the person at the terminal.
pub struct Ask {
    /// Whether nobody is asked: everything is given by flags, or can be found.
    silent: bool,
}

/// Answer to the question for the rates.
pub enum Rates {
    /// Rates towards the users and from the users.
    Typed([Option<String>; 2]),
    /// Rates are not known yet; the link can be made busy now.
    Measure,
    /// Rates are not known, or change: `auto` where the box is before the link, a number where it is not.
    Follow([Option<String>; 2]),
    /// Rates are not needed: the box only looks on.
    Observe,
}

const LOST: &str = "no answer: nothing was written";

impl Ask {
    /// Asks on this terminal, or never.
    ///
    /// # Errors
    /// If it has to ask and there is no terminal.
    pub fn new(silent: bool) -> anyhow::Result<Self> {
        if !(silent || std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            bail!(
                "no terminal to ask on: say it by flags, as in narrows setup --lan eth1 --down 600kbit --up 128kbit \
                 --yes"
            );
        }
        Ok(Self { silent })
    }

    /// The interface of one side, `given` by its flag or found; never `taken`.
    pub fn interface(
        &self,
        found: &[Found],
        side: Side,
        given: Option<&str>,
        taken: Option<&str>,
    ) -> anyhow::Result<String> {
        let key = if side == Side::Wan { "wan" } else { "lan" };
        let names = || found.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", ");
        if let Some(name) = given {
            if !found.iter().any(|one| one.name == name) {
                bail!("--{key} {name}: no such interface here: expected one of {}", names());
            }
            return Ok(name.to_owned());
        }
        let left: Vec<&Found> = found.iter().filter(|one| Some(one.name.as_str()) != taken).collect();
        if left.is_empty() {
            bail!("no interface is left for --{key}: a box stands between two (ip link shows them)");
        }
        let likely: Vec<&&Found> = match side {
            Side::Wan => left.iter().filter(|one| one.default_route).collect(),
            Side::Lan => {
                left.iter().filter(|one| one.interface.up && one.addresses.iter().any(is_given)).collect()
            }
        };
        if self.silent {
            return match likely[..] {
                [one] => Ok(one.name.clone()),
                _ => bail!("which is the {} interface? --{key} one of {}", side.whose(), names()),
            };
        }
        let first = likely.first().and_then(|one| left.iter().position(|other| other.name == one.name));
        let chosen = Select::new()
            .with_prompt(format!("The {} interface", side.whose()))
            .items(left.iter().map(|one| describe(one)))
            .default(first.unwrap_or(0))
            .interact()
            .context(LOST)?;
        Ok(left[chosen].name.clone())
    }

    /// Asks for the rates that no flag has given.
    pub fn rates(&self) -> anyhow::Result<Rates> {
        if self.silent {
            bail!(
                "no rate is given: --down and --up, where auto finds the rate and follows it, or \
                 --measure while the link is busy, or --observe"
            );
        }
        let ways = [
            "I know them",
            "measure: I make the link busy now",
            "nobody knows them, or they change: found and followed (auto)",
            "not known yet: only observe",
        ];
        let way = Select::new().with_prompt("The link's rates").items(ways).default(0).interact();
        Ok(match way.context(LOST)? {
            0 => Rates::Typed([Self::rate("down", "to the users")?, Self::rate("up", "from the users")?]),
            1 => Rates::Measure,
            2 => Rates::Follow([(); 2].map(|()| Some("auto".to_owned()))),
            _ => Rates::Observe,
        })
    }

    fn rate(key: &str, way: &str) -> anyhow::Result<Option<String>> {
        let valid = |text: &String| {
            let empty = text.trim().is_empty();
            if empty { Ok(()) } else { check_rate(key, text.trim()).map_err(|e| e.to_string()) }
        };
        let text: String = Input::new()
            .with_prompt(format!("Rate {way}, as 600kbit, 2 to 5 % below the link's (empty: not shaped)"))
            .allow_empty(true)
            .validate_with(valid)
            .interact_text()
            .context(LOST)?;
        Ok(Some(text.trim().to_owned()).filter(|rate| !rate.is_empty()))
    }

    /// Asks for the kind of link, which tells the headers that its rate includes.
    pub fn link(&self) -> anyhow::Result<LinkKind> {
        if self.silent {
            return Ok(LinkKind::Ip);
        }
        let kinds = LinkKind::value_variants();
        let help = |kind: &LinkKind| kind.to_possible_value()?.get_help().map(ToString::to_string);
        let chosen = Select::new()
            .with_prompt("What the rates count")
            .items(kinds.iter().filter_map(help))
            .default(0)
            .interact();
        Ok(kinds[chosen.context(LOST)?])
    }

    /// Whether a file that is there may go.
    pub fn overwrite(&self, file: &Path) -> anyhow::Result<bool> {
        let wanted = !self.silent
            && Confirm::new()
                .with_prompt(format!("{} is there already. Replace it?", file.display()))
                .default(false)
                .interact()
                .context(LOST)?;
        if !wanted {
            bail!("{} stays as it is: name another file with --output, or --overwrite", file.display());
        }
        Ok(true)
    }

    /// Asks whether to start the box; `None` if no file shall be written.
    pub fn what_now(&self, args: &Args, plan: &mut Plan) -> anyhow::Result<Option<bool>> {
        if self.silent || args.start {
            return Ok(Some(args.start));
        }
        let shaping = plan.rates.iter().any(Option::is_some) && !plan.observe;
        let mut ways = vec![("Write it and start: only observe, a good first day", true, true)];
        if shaping {
            ways.push(("Write it and start: shape", true, false));
        }
        ways.push(("Write it", false, plan.observe));
        let items = ways.iter().map(|way| way.0).chain(["Write nothing"]);
        let chosen = Select::new().with_prompt("And now").items(items).default(0).interact().context(LOST)?;
        Ok(ways.get(chosen).map(|(_, start, observe)| {
            plan.observe = *observe;
            *start
        }))
    }
}

/// Whether an address is given to the interface, not made by it (RFC 4291, 2.5.6).
fn is_given(address: &IpAddr) -> bool {
    !matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

impl Side {
    fn whose(self) -> &'static str {
        match self {
            Self::Wan => "slow link's",
            Self::Lan => "users'",
        }
    }
}
