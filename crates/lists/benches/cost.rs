//! Measures the time of one operation: `cargo bench -p narrows-lists`. Beside each stands what the standard library
//! offers for it.
//!
//! A number is the least of five times over the same operations, divided by how many there were.

#![expect(clippy::disallowed_methods, reason = "a bench is a driver: it has a clock")]
#![expect(clippy::disallowed_types, reason = "the map that is compared with")]

use std::collections::{HashMap, VecDeque};
use std::hint::black_box;
use std::time::Instant;

use narrows_lists::{Chains, Fifos, Links, List, Queue, Slab, chained};

/// Record as large as a packet with its header.
type Packet = [u64; 16];

const STEPS: usize = 1_000_000;
const ROUNDS: usize = 5;

fn random(state: &mut u64) -> usize {
    // xorshift64
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 33) as usize
}

fn time(mut work: impl FnMut()) -> f64 {
    let once = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / STEPS as f64
    };
    (0..ROUNDS).map(|_| once(&mut work)).fold(f64::INFINITY, f64::min)
}

/// One item to each of many queues in turn, and one out of the same: what fair queueing does with packets.
fn queues(flows: usize) -> (f64, f64) {
    let (mut fifos, mut ends) = (Fifos::<Packet>::new(), vec![Queue::EMPTY; flows]);
    let mut deques = vec![VecDeque::<Packet>::new(); flows];
    for (flow, deque) in deques.iter_mut().enumerate() {
        fifos.push_back(&mut ends[flow], [0; 16]);
        deque.push_back([0; 16]);
    }
    let (mut a, mut b) = (1, 1);
    let ours = time(|| {
        for n in 0..STEPS {
            let end = &mut ends[random(&mut a) % flows];
            fifos.push_back(end, [n as u64; 16]);
            black_box(fifos.pop_front(end));
        }
    });
    let theirs = time(|| {
        for n in 0..STEPS {
            let deque = &mut deques[random(&mut b) % flows];
            deque.push_back([n as u64; 16]);
            black_box(deque.pop_front());
        }
    });
    (ours, theirs)
}

/// The first goes to the end: a turn of deficit round robin.
fn turns(flows: usize) -> (f64, f64) {
    let (mut links, mut list) = (vec![Links::NONE; flows], List::<()>::EMPTY);
    (0..flows as u32).for_each(|at| list.push_back(&mut links, at));
    let mut deque: VecDeque<u32> = (0..flows as u32).collect();
    let ours = time(|| {
        for _ in 0..STEPS {
            if let Some(at) = black_box(list.first()) {
                list.move_to_back(&mut links, at);
            }
        }
    });
    let theirs = time(|| {
        for _ in 0..STEPS {
            if let Some(at) = black_box(deque.pop_front()) {
                deque.push_back(at);
            }
        }
    });
    (ours, theirs)
}

/// Anybody leaves and comes back at the end: a vector has to move all who stand behind.
fn leaving(flows: usize) -> (f64, f64) {
    let (mut links, mut list) = (vec![Links::NONE; flows], List::<()>::EMPTY);
    (0..flows as u32).for_each(|at| list.push_back(&mut links, at));
    let mut vector: Vec<u32> = (0..flows as u32).collect();
    let (mut a, mut b) = (1, 1);
    let ours =
        time(|| (0..STEPS).for_each(|_| list.move_to_back(&mut links, (random(&mut a) % flows) as u32)));
    let theirs = time(|| {
        for _ in 0..STEPS {
            let at = vector.remove(random(&mut b) % flows);
            vector.push(at);
        }
    });
    (ours, theirs)
}

/// A record out, another in.
fn slab(flows: usize) -> (f64, f64) {
    let (mut slab, mut boxes) = (Slab::<Packet>::new(), Vec::new());
    for _ in 0..flows {
        slab.insert([0; 16]);
        boxes.push(Some(Box::new([0_u64; 16])));
    }
    let (mut a, mut b) = (1, 1);
    let ours = time(|| {
        for n in 0..STEPS {
            black_box(slab.remove((random(&mut a) % flows) as u32));
            slab.insert([n as u64; 16]);
        }
    });
    let theirs = time(|| {
        for n in 0..STEPS {
            let place = &mut boxes[random(&mut b) % flows];
            black_box(place.take());
            *place = Some(Box::new([n as u64; 16]));
        }
    });
    (ours, theirs)
}

struct Flow {
    key: u64,
    chain: u32,
}

chained!(Flow: chain);

/// A record found by its key; both hash it, here by a product.
fn found(flows: usize) -> (f64, f64) {
    let hash = |key: u64| (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    let buckets = flows.next_power_of_two();
    let mut records: Vec<Flow> = (0..flows as u64).map(|key| Flow { key, chain: 0 }).collect();
    let (mut chains, mut map) = (Chains::new(buckets), HashMap::new());
    for at in 0..flows {
        chains.push(&mut records, hash(at as u64) % buckets, at as u32);
        map.insert(at as u64, at);
    }
    let (mut a, mut b) = (1, 1);
    let ours = time(|| {
        for _ in 0..STEPS {
            let key = (random(&mut a) % flows) as u64;
            black_box(chains.find(&records, hash(key) % buckets, |flow| flow.key == key));
        }
    });
    let theirs = time(|| {
        for _ in 0..STEPS {
            black_box(map.get(&((random(&mut b) % flows) as u64)));
        }
    });
    (ours, theirs)
}

fn main() {
    println!("{:>8}  {:<44} {:>8} {:>8}  beside", "records", "operation", "ns", "ns");
    for flows in [100, 10_000] {
        let row = |name: &str, (ours, theirs): (f64, f64), beside: &str| {
            println!("{flows:>8}  {name:<44} {ours:>8.1} {theirs:>8.1}  {beside}");
        };
        row("Fifos: 128 bytes in and out of a queue", queues(flows), "a VecDeque for each queue");
        row("List: the first goes to the end", turns(flows), "VecDeque");
        row("List: anybody goes to the end", leaving(flows), "Vec");
        row("Slab: 128 bytes out and in", slab(flows), "Box");
        row("Chains: found by key", found(flows), "HashMap");
    }
}
