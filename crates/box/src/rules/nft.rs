//! Our rules in nf_tables: a table of their own, `narrows-N` of family `inet`, or `bridge` where both interfaces are
//! ports of one bridge.
//!
//! When a chain leaves its hook the kernel drops whatever waits in any queue of the network namespace
//! (nf_queue_nf_hook_drop). So while packets may be held the rules come and go, and the chains stay: [`silence`]. The
//! table goes when nobody holds packets: [`remove`].
//!
//! Its chains come after everything that is named ([`PRIORITY`]): an MSS clamp has been at a packet, and a firewall has
//! let it pass, before it is queued. A packet the box lets go is seen by what comes later still.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use anyhow::Context;
use netlink_packet_core::{DefaultNla, NLM_F_APPEND, NLM_F_CREATE, Nla as _};
use netlink_packet_netfilter::NetfilterProtoFamily as Family;
use netlink_packet_netfilter::nftables::{
    ChainAttribute, ChainMessage, Cmp, DataAttribute, ExpressionAttribute, Expressions, Hook, HookNumber,
    InetHookNumber, ListAttribute, Meta, MetaKey, NfTablesMessage, Operator, Register, RuleAttribute,
    RuleMessage, TableAttribute, TableMessage,
};
use serde::{Deserialize, Serialize};

use super::netlink::{Netlink, Request, Then};
use super::{CHAIN_PREFIX, Rules};

/// Place of the first of our chains in their hooks. The last that has a name is connection tracking's helpers, at 300.
const PRIORITY: i32 = 1000;
/// Length of an interface's name in bytes, with the zero at the end (IFNAMSIZ).
const NAME: usize = 16;
/// Type of the comment in user data (libnftnl/udata.h): the first of a table's.
const COMMENT: u8 = 0;
/// Attributes of `queue` (enum nft_queue_attributes).
const NFTA_QUEUE_NUM: u16 = 1;
const NFTA_QUEUE_TOTAL: u16 = 2;
const NFTA_QUEUE_FLAGS: u16 = 3;
/// An expression that counts packets, and its attribute that says how many (enum nft_counter_attributes).
const COUNTER: &str = "counter";
const NFTA_COUNTER_PACKETS: u16 = 2;
/// Attributes of `target` (enum nft_target_attributes).
const NFTA_TARGET_NAME: u16 = 1;
const NFTA_TARGET_REV: u16 = 2;
const NFTA_TARGET_INFO: u16 = 3;
/// Revision of the target `NFQUEUE` that knows of flags (struct xt_NFQ_info_v3).
const REVISION: u32 = 3;

/// Form in which this kernel says "into the queue": some are built with one and without the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Queueing {
    /// The statement `queue` (nft_queue).
    Statement,
    /// The target of iptables, `NFQUEUE` (nft_compat and xt_NFQUEUE).
    Target,
}

impl Queueing {
    /// Finds the queueing that this kernel has, by a trial that changes nothing.
    ///
    /// # Errors
    /// If it has neither, or nf_tables cannot be asked.
    pub fn find(bridged: bool) -> anyhow::Result<Self> {
        let rules = Rules::trial(bridged);
        // Without hooks: to forget a chain that has one is to take it out of it.
        let trial =
            |queueing| Netlink::open()?.transact(changes(&rules, queueing, |_| Vec::new()), Then::Forget);
        let Err(statement) = trial(Self::Statement) else { return Ok(Self::Statement) };
        // In family bridge kernels find the target good, and refuse it when it is to be made.
        if !bridged && trial(Self::Target).is_ok() {
            return Ok(Self::Target);
        }
        Err(statement).context(if bridged {
            "nf_tables cannot queue a bridge's packets here (modules nft_queue and nf_tables of family bridge)"
        } else {
            "nf_tables cannot queue packets here (modules nf_tables and nft_queue)"
        })
    }

    /// Puts the rules in, in place of those that stand there, in one step.
    ///
    /// # Errors
    /// If the kernel refuses; then all is as it was.
    pub fn put_in(self, rules: &Rules) -> anyhow::Result<()> {
        let done = || {
            let netlink = Netlink::open()?;
            let priority = priority(&table(&rules.chain()), &base_chains(&netlink)?);
            netlink.transact(installation(rules, self, priority), Then::Commit)
        };
        done().with_context(|| format!("nf_tables refused table {}", table(&rules.chain())))
    }

    /// The expression.
    fn expression(self, queue: u16) -> Expressions {
        match self {
            Self::Statement => Expressions::Other {
                expression_type: "queue".to_owned(),
                attributes: vec![
                    DefaultNla::new(NFTA_QUEUE_NUM, queue.to_be_bytes().to_vec()),
                    DefaultNla::new(NFTA_QUEUE_TOTAL, 1u16.to_be_bytes().to_vec()),
                    DefaultNla::new(
                        NFTA_QUEUE_FLAGS,
                        (libc::NFT_QUEUE_FLAG_BYPASS as u16).to_be_bytes().to_vec(),
                    ),
                ],
            },
            Self::Target => {
                // Queue number, how many, flags (1: bypass), and padding to 8 bytes (XT_ALIGN).
                let info = [queue, 1, 1, 0].map(u16::to_ne_bytes).concat();
                Expressions::Other {
                    expression_type: "target".to_owned(),
                    attributes: vec![
                        DefaultNla::new(NFTA_TARGET_NAME, b"NFQUEUE\0".to_vec()),
                        DefaultNla::new(NFTA_TARGET_REV, REVISION.to_be_bytes().to_vec()),
                        DefaultNla::new(NFTA_TARGET_INFO, info),
                    ],
                }
            }
        }
    }
}

/// The table of the box whose rules are called `chain`.
pub fn table(chain: &str) -> String {
    chain.to_lowercase()
}

/// Whether a table is one of ours, by its name.
fn is_ours(name: &str) -> bool {
    name.starts_with(&table(CHAIN_PREFIX))
}

/// The sets of chains that our tables have, of each family. The names of these tables are ours, so nobody else's rules
/// need be read.
const PLACES: [(Family, &[&str]); 3] = [
    (Family::Inet, &["forward"]),
    (Family::Inet, &["forward", "input", "output"]),
    (Family::Bridge, &["forward"]),
];

/// Takes the rules of `chain` out and leaves their hooks. Returns whether there was a place for them.
///
/// # Errors
/// If the kernel refuses.
pub fn silence(chain: &str) -> anyhow::Result<bool> {
    let name = table(chain);
    let silenced = || {
        let netlink = Netlink::open()?;
        let mut any = false;
        for (family, chains) in PLACES {
            let empty = |chain: &&str| emptying(family, name.clone(), (*chain).to_owned());
            match netlink.transact(chains.iter().map(empty).collect(), Then::Commit) {
                Ok(()) => any = true,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(any)
    };
    silenced().with_context(|| format!("nf_tables refused to empty table {name}"))
}

/// Removes the table of `chain`, of whatever family. Returns whether there was one.
///
/// # Errors
/// If the kernel refuses.
pub fn remove(chain: &str) -> anyhow::Result<bool> {
    let name = table(chain);
    let removed = || {
        let netlink = Netlink::open()?;
        let ours = tables(&netlink)?.into_iter().filter(|(_, n)| *n == name);
        let removals: Vec<_> = ours.map(|(family, name)| removal(family, name)).collect();
        if removals.is_empty() {
            return Ok(false);
        }
        match netlink.transact(removals, Then::Commit) {
            // Somebody else was faster.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            done => done.map(|()| true),
        }
    };
    removed().with_context(|| format!("nf_tables refused to remove table {name}"))
}

/// Names of our tables as chains; with `with_rules`, of those that are not empty.
///
/// # Errors
/// If nf_tables cannot be asked.
pub fn our_chains(with_rules: bool) -> io::Result<Vec<String>> {
    let netlink = Netlink::open()?;
    let mut names = BTreeSet::new();
    for (family, name) in tables(&netlink)?.into_iter().filter(|(_, name)| is_ours(name)) {
        if !with_rules || !rules(&netlink, family, &name)?.is_empty() {
            names.insert(name.to_uppercase());
        }
    }
    Ok(names.into_iter().collect())
}

/// Whether there is a table `mangle` of the iptables that keep their rules in nf_tables.
pub fn has_mangle() -> bool {
    let tables = Netlink::open().and_then(|netlink| tables(&netlink)).unwrap_or_default();
    tables.iter().any(|(family, name)| [Family::IPv4, Family::IPv6].contains(family) && name == "mangle")
}

/// Base chains, of whatever table, that drop what is forwarded unless a rule accepts it.
pub fn dropping() -> Vec<String> {
    let all = Netlink::open().and_then(|netlink| base_chains(&netlink)).unwrap_or_default();
    let dropping = all.into_iter().filter(|chain| {
        let shown = [Family::IPv4, Family::IPv6, Family::Inet].contains(&chain.family);
        shown && chain.forwards && chain.drops
    });
    dropping.map(|chain| format!("chain {} of table {} (nftables)", chain.name, chain.table)).collect()
}

/// Chain that is in a hook of the kernel, of whatever table.
struct BaseChain {
    family: Family,
    table: String,
    name: String,
    /// Whether the hook is that of packets which are forwarded.
    forwards: bool,
    /// Whether the chain drops what no rule of it accepts.
    drops: bool,
    /// Place in the hook: lower numbers are first.
    priority: i32,
}

impl BaseChain {
    /// Reads the kernel's answer; `None` if it is no chain, or one without a hook.
    fn of((family, message): (Family, NfTablesMessage)) -> Option<Self> {
        let NfTablesMessage::NewChain(chain) = message else { return None };
        let (mut table, mut name, mut hook, mut drops) = (None, None, None, false);
        for attribute in chain.attributes {
            match attribute {
                ChainAttribute::Table(text) => table = Some(text),
                ChainAttribute::Name(text) => name = Some(text),
                ChainAttribute::Policy(policy) => drops = policy == libc::NF_DROP as u32,
                ChainAttribute::Hook(parts) => hook = Some(parts),
                _ => {}
            }
        }
        let hook = hook?;
        let forwards = hook.contains(&Hook::Number(InetHookNumber::Forward.into()));
        let priority = hook.iter().find_map(|part| match part {
            Hook::Priority(priority) => Some(priority.cast_signed()),
            _ => None,
        });
        Some(Self { family, table: table?, name: name?, forwards, drops, priority: priority? })
    }
}

/// All chains that are in a hook.
fn base_chains(netlink: &Netlink) -> io::Result<Vec<BaseChain>> {
    let message = NfTablesMessage::GetChain(ChainMessage { attributes: Vec::new() });
    let all = netlink.list(&Request { family: Family::Unspec, message, flags: 0 })?;
    Ok(all.into_iter().filter_map(BaseChain::of).collect())
}

/// Priority of the chains of our table `name`: the one they have, or a higher one than all other tables of ours. The
/// kernel finds the way of a waiting packet by the number of chains before (`hook_index` of `struct nf_queue_entry`),
/// and puts a new chain before those of the same priority: each packet that waits would be queued a second time.
fn priority(name: &str, chains: &[BaseChain]) -> i32 {
    if let Some(own) = chains.iter().find(|chain| chain.table == name) {
        return own.priority;
    }
    let ours = chains.iter().filter(|chain| is_ours(&chain.table));
    ours.map(|chain| chain.priority.saturating_add(1)).fold(PRIORITY, i32::max)
}

/// Whether all rules stand in their chains.
///
/// # Errors
/// If nf_tables cannot be asked.
pub fn stand(wanted: &Rules) -> io::Result<bool> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for rule in rules(&Netlink::open()?, family(wanted), &table(&wanted.chain()))? {
        *count.entry(rule.chain).or_default() += 1;
    }
    let wanted = chains(wanted).into_iter().map(|chain| (chain.name.to_owned(), chain.matches.len()));
    Ok(count == wanted.collect())
}

/// Packets that these rules have sent to the queues, down and up, since they were put in. `None` if they are not there,
/// or were put in by a version that did not count.
///
/// # Errors
/// If nf_tables cannot be asked.
pub fn offered(wanted: &Rules) -> io::Result<Option<[u64; 2]>> {
    let rules = rules(&Netlink::open()?, family(wanted), &table(&wanted.chain()))?;
    let mut offered = [0; 2];
    for chain in chains(wanted) {
        let mut counted = rules.iter().filter(|rule| rule.chain == chain.name).map(|rule| rule.packets);
        for (_, queue) in chain.matches {
            let Some(packets) = counted.next().flatten() else { return Ok(None) };
            offered[usize::from(queue != wanted.queue)] += packets;
        }
    }
    Ok(Some(offered))
}

/// Rule in a chain of ours, as the kernel lists the rule.
struct Listed {
    chain: String,
    /// Packets counted by the rule; `None` if the rule has no counter.
    packets: Option<u64>,
}

/// All rules of one table, in their order.
fn rules(netlink: &Netlink, family: Family, name: &str) -> io::Result<Vec<Listed>> {
    let attributes = vec![RuleAttribute::Table(name.to_owned())];
    let message = NfTablesMessage::GetRule(RuleMessage { attributes });
    let listed = |(of, message)| {
        let NfTablesMessage::NewRule(rule) = message else { return None };
        let (mut table, mut chain, mut packets) = (None, None, None);
        for attribute in rule.attributes {
            match attribute {
                RuleAttribute::Table(name) => table = Some(name),
                RuleAttribute::Chain(name) => chain = Some(name),
                RuleAttribute::Expressions(all) => packets = all.iter().find_map(counted),
                _ => {}
            }
        }
        // A kernel older than the filter by table lists all.
        (of == family && table.as_deref() == Some(name)).then_some(Listed { chain: chain?, packets })
    };
    Ok(netlink.list(&Request { family, message, flags: 0 })?.into_iter().filter_map(listed).collect())
}

/// Packets counted by an expression; `None` if the expression is no counter.
fn counted(element: &ListAttribute<ExpressionAttribute>) -> Option<u64> {
    let ListAttribute::Element(attributes) = element else { return None };
    attributes.iter().find_map(|attribute| match attribute {
        ExpressionAttribute::Data(Expressions::Other { expression_type, attributes })
            if expression_type == COUNTER =>
        {
            let packets = attributes.iter().find(|nla| nla.kind() == NFTA_COUNTER_PACKETS)?;
            let mut value = [0; 8];
            (packets.value_len() == 8).then(|| packets.emit_value(&mut value))?;
            Some(u64::from_be_bytes(value))
        }
        _ => None,
    })
}

/// All tables: family and name.
fn tables(netlink: &Netlink) -> io::Result<Vec<(Family, String)>> {
    let message = NfTablesMessage::GetTable(TableMessage { attributes: Vec::new() });
    let all = netlink.list(&Request { family: Family::Unspec, message, flags: 0 })?;
    let name = |(family, message)| {
        let NfTablesMessage::NewTable(table) = message else { return None };
        table.attributes.into_iter().find_map(|a| match a {
            TableAttribute::Name(name) => Some((family, name)),
            _ => None,
        })
    };
    Ok(all.into_iter().filter_map(name).collect())
}

const fn family(rules: &Rules) -> Family {
    if rules.bridged { Family::Bridge } else { Family::Inet }
}

/// Chain of rules: hook, and the queue for each match.
struct Chain {
    name: &'static str,
    hook: InetHookNumber,
    matches: Vec<(Vec<Expressions>, u16)>,
}

/// Hooks of a bridge have the numbers of `inet`'s (linux/netfilter_bridge.h).
fn chains(rules: &Rules) -> Vec<Chain> {
    let (down, up) = (rules.queue, rules.queue + 1);
    let (from, to) = (|name: &str| is(MetaKey::Iifname, name), |name: &str| is(MetaKey::Oifname, name));
    let mut forward = Vec::new();
    for lan in &rules.lan {
        for (way, queue) in
            [([from(&rules.wan), to(lan)].concat(), down), ([from(lan), to(&rules.wan)].concat(), up)]
        {
            // On a bridge whatever it carries: what is no IP takes its time on the link too.
            forward.push((way, queue));
        }
    }
    let mut all = vec![Chain { name: "forward", hook: InetHookNumber::Forward, matches: forward }];
    if rules.local {
        let one = |name, hook, way, queue| Chain { name, hook, matches: vec![(way, queue)] };
        all.push(one("input", InetHookNumber::LocalIn, from(&rules.wan), down));
        all.push(one("output", InetHookNumber::LocalOut, to(&rules.wan), up));
    }
    all
}

fn meta(key: MetaKey) -> Expressions {
    Expressions::Meta(vec![Meta::Key(key), Meta::DestinationRegister(Register::Reg1)])
}

fn equals(value: Vec<u8>) -> Expressions {
    Expressions::Cmp(vec![
        Cmp::SourceRegister(Register::Reg1),
        Cmp::Op(Operator::Equal),
        Cmp::Data(DataAttribute::Value(value)),
    ])
}

/// The interface has this name, or with `*` at the end one that begins so.
fn is(key: MetaKey, name: &str) -> Vec<Expressions> {
    let value = name.strip_suffix('*').map_or_else(
        || {
            let mut whole = name.as_bytes().to_vec();
            whole.resize(NAME, 0);
            whole
        },
        |beginning| beginning.as_bytes().to_vec(),
    );
    vec![meta(key), equals(value)]
}

fn removal(family: Family, name: String) -> Request {
    let table = TableMessage { attributes: vec![TableAttribute::Name(name)] };
    Request { family, message: NfTablesMessage::DeleteTable(table), flags: 0 }
}

/// Takes every rule out of a chain.
fn emptying(family: Family, table: String, chain: String) -> Request {
    let attributes = vec![RuleAttribute::Table(table), RuleAttribute::Chain(chain)];
    Request { family, message: NfTablesMessage::DeleteRule(RuleMessage { attributes }), flags: 0 }
}

/// The changes that leave these rules standing and no others, whatever was in their table before: what is not there is
/// made, what is stays in its hook.
fn installation(rules: &Rules, queueing: Queueing, priority: i32) -> Vec<Request> {
    changes(rules, queueing, |hook| {
        vec![
            ChainAttribute::Hook(vec![
                Hook::Number(HookNumber::Inet(hook)),
                Hook::Priority(priority.cast_unsigned()),
            ]),
            ChainAttribute::Type("filter".to_owned()),
        ]
    })
}

/// Changes that put these rules into chains with the attributes of `place` besides.
fn changes(
    rules: &Rules,
    queueing: Queueing,
    place: impl Fn(InetHookNumber) -> Vec<ChainAttribute>,
) -> Vec<Request> {
    let (family, name) = (family(rules), table(&rules.chain()));
    let make = |message, flags| Request { family, message, flags: NLM_F_CREATE | flags };
    let comment = [&[COMMENT, rules.owner.len() as u8 + 1], rules.owner.as_bytes(), b"\0"].concat();
    let attributes = vec![TableAttribute::Name(name.clone()), TableAttribute::UserData(comment)];
    let mut changes = vec![make(NfTablesMessage::NewTable(TableMessage { attributes }), 0)];
    for chain in chains(rules) {
        let mut attributes =
            vec![ChainAttribute::Table(name.clone()), ChainAttribute::Name(chain.name.to_owned())];
        attributes.extend(place(chain.hook));
        changes.push(make(NfTablesMessage::NewChain(ChainMessage { attributes }), 0));
        changes.push(emptying(family, name.clone(), chain.name.to_owned()));
        for (way, queue) in chain.matches {
            let counter = Expressions::Other { expression_type: COUNTER.to_owned(), attributes: Vec::new() };
            let expressions = way.into_iter().chain([counter, queueing.expression(queue)]);
            let attributes = vec![
                RuleAttribute::Table(name.clone()),
                RuleAttribute::Chain(chain.name.to_owned()),
                RuleAttribute::Expressions(
                    expressions.map(ListAttribute::<ExpressionAttribute>::from).collect(),
                ),
            ];
            changes.push(make(NfTablesMessage::NewRule(RuleMessage { attributes }), NLM_F_APPEND));
        }
    }
    changes
}

#[cfg(all(test, target_endian = "little"))]
mod tests {
    use netlink_packet_core::Emitable as _;

    use super::*;

    fn bytes(expression: Expressions) -> Vec<u8> {
        let list = [ListAttribute::<ExpressionAttribute>::from(expression)];
        let mut bytes = vec![0; list.as_slice().buffer_len()];
        list.as_slice().emit(&mut bytes);
        bytes
    }

    #[test]
    fn the_statement_as_nf_tables_h_has_it() {
        // NFTA_LIST_ELEM { NFTA_EXPR_NAME "queue", NFTA_EXPR_DATA { number, how many, flags: each 16 bits,
        // big endian } }; lengths without padding, nested ones marked by the highest bit.
        let expected = [
            &[44, 0, 1, 0x80, 10, 0, 1, 0][..],
            b"queue\0\0\0",
            &[28, 0, 2, 0x80],
            &[6, 0, 1, 0, 0, 40, 0, 0],
            &[6, 0, 2, 0, 0, 1, 0, 0],
            &[6, 0, 3, 0, 0, 1, 0, 0],
        ];
        assert_eq!(bytes(Queueing::Statement.expression(40)), expected.concat());
    }

    #[test]
    fn a_table_keeps_its_place_and_a_new_one_comes_behind_ours() {
        let chain = |table: &str, priority| BaseChain {
            family: Family::Inet,
            table: table.to_owned(),
            name: "forward".to_owned(),
            forwards: true,
            drops: false,
            priority,
        };
        let chains = [chain("narrows-40", 1000), chain("narrows-42", 1004), chain("filter", 5000)];
        let of = |name: &str| priority(name, &chains);
        assert_eq!((of("narrows-40"), of("narrows-42"), of("narrows-4")), (1000, 1004, 1005));
        assert_eq!(priority("narrows-40", &chains[2..]), 1000);
        // Somebody else's table with a name like ours.
        assert_eq!(priority("narrows-40", &[chain("narrows-raw", -300)]), 1000);
        assert_eq!(priority("narrows-40", &[chain("narrows-last", i32::MAX)]), i32::MAX);
    }

    #[test]
    fn a_name_with_its_end_and_one_that_only_begins_so() {
        let value = |name: &str| match is(MetaKey::Iifname, name).pop() {
            Some(Expressions::Cmp(parts)) => match parts.last() {
                Some(Cmp::Data(DataAttribute::Value(bytes))) => bytes.clone(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        assert_eq!(value("eth1"), *b"eth1\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(value("ppp*"), *b"ppp");
    }
}
