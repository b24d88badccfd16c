//! Common part of the tests of every discipline: random traffic from a seed, ways to drive, and a ledger that
//! checks each packet's fate.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod drive;
pub mod ledger;
pub mod traffic;

use narrows_qdisc::{Shaper, ShaperConfig, Spec};
use narrows_units::{Bytes, Rate};

use self::drive::Tested;

/// Every discipline with settings that take it into its corners. Queues are small, so that they overflow.
pub const SPECS: &[&str] = &[
    "fifo:30",
    "fifo:9000b",
    "drr",
    "drr:20,quantum=300",
    "drr:12,share=hash,buckets=5,perturb=1s,quantum=700",
    "drr:16,share=user,quantum=400",
    "cake:100",
    "cake:40,flows=8,quantum=300,ack_filter=aggressive,isolate=dual_dst,interval=30ms",
    "cake:60,ack_filter=on,isolate=flows,ecn=off,target=1ms,interval=20ms,quantum=1514",
    "codel:100",
    "codel:20,target=20ms,interval=40ms,ecn=off",
    "codel:60,scale=on",
    "fq_codel:100",
    "fq_codel:40,flows=8,target=10ms,interval=50ms,quantum=300",
    "fq_codel:30,spare=queue,ecn=off,interval=30ms",
    "fq_codel:60,scale=on",
    "fq_codel:40,share=user,flows=16,quantum=300",
    "pie:100",
    "pie:30,target=40ms,t_update=7ms,max_burst=0s,derandomize=off,steep=on,mark_ecnth=1",
    "pie:60,ecn=off,cap=off,alpha=2,beta=20",
    "red",
    "red:12,min=2,max=6,max_p=1,w_q=0.3,bytes=on,by_size=on,packet=800",
    "red:30,w_q=1,gentle=off,harddrop=off",
    "red:8,min=1,max=9,ecn=off,max_p=0.5,w_q=0.05",
    "rio:in_dscp=0,w_q=0.1",
    "rio:ps,buffer=20,w_q=0.2,short=3,mark=on,flows=16,idle=1s",
    "sfq",
    "sfq:25,buckets=3,perturb=0.5s",
    "sfq:12,quantum=400,buckets=64,perturb=2s",
    "classes",
    "classes:packets=3,buffer=20",
    "classes:packets=4,borrow=on,share=0.2,mark=on,buffer_short=8,buffer_long=30",
    "classes:threshold=auto,split=auto,buffer=16,flows=16,record_timeout=1",
    "classes:threshold=seconds,seconds=1,split=auto,borrow=on",
    "classes:random,share=0.9",
    "classes:dscp,buffer=10",
    "classes:queue=red,packets=3,split=auto,buffer=30",
    "taq:paper",
    "taq:paper,buffer=20,waiting_syn=hold",
    "taq:paper,buffer=40,waiting_syn=hold,p_admit=0.01,t_wait=1",
    "taq:paper,buffer=12,share=user,fair_share=proportional",
    "taq:paper,buffer=12,fair_share=proportional,over_penalised=1",
    "taq:paper,buffer=30,flows=16,pools=16,share=user",
    "taq:paper,buffer=60,admission=off,rho_r=0.1,newflow_cap=0.1",
    "taq",
    "taq:flows=16,pools=16",
    "taq:memory_packets=40,k=3,window_clamp=off,waiting_syn=hold",
    "taq:window_clamp=off,retransmissions_first=off,suppress_duplicates=off,share=user,memory_packets=60",
    "taq:share=user,pools=16,flows=64,round_limit_ms=200",
    "taq:rested_first=off,share=user,pools=16,flows=64",
    "taq:share=flow,memory_packets=60,window_clamp=off",
    "taq:repairable=off,mark=off,first_window_grace=off,new_flows_first=off,waiting_syn=drop,round_limit_ms=100",
];

/// The link of the tests: 600 kbit/s, packets up to 1500 bytes.
pub fn link() -> ShaperConfig {
    ShaperConfig { mtu: Bytes(1500), ..ShaperConfig::new(Rate::from_kbps(600)) }
}

/// The discipline named by `text`, bare or behind the shaper.
pub fn build(text: &str, shaped: bool, seed: u64) -> Tested {
    let spec: Spec = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let inner = spec.build(&link(), seed);
    if shaped { Box::new(Shaper::new(link(), inner)) } else { inner }
}

/// The seeds to run: that of `NARROWS_SEED`, or a few fixed ones. Printed, so that a failure names its seed.
pub fn seeds() -> Vec<u64> {
    let seeds = std::env::var("NARROWS_SEED")
        .map_or_else(|_| vec![1, 2], |s| vec![s.parse().expect("NARROWS_SEED is a number")]);
    println!("seeds {seeds:?} (NARROWS_SEED=n repeats one)");
    seeds
}

/// A small generator of random numbers (xorshift64*, Vigna 2016): the same on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n.max(1)
    }
    /// True once in `n` times.
    pub fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
