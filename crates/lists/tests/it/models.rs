//! Everything against `VecDeque`s that are given the same random operations: same members, same order, same lengths.

use std::collections::VecDeque;

use narrows_lists::{Arena, Chains, Fifos, HeadList, Linked, Links, List, NIL, Queue, Slab, chained, linked};

/// xorshift64: each seed gives one history, and a failure names its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n
    }
}

const SEEDS: u64 = 50;
const STEPS: usize = 2_000;
const RECORDS: usize = 40;

fn seeded(mut test: impl FnMut(u64, Random)) {
    for seed in 1..=SEEDS {
        test(seed, Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
}

/// A record that is in one list by turn and in another by length at the same time.
#[derive(Clone, Debug, Default)]
struct Flow {
    turn: Links,
    length: Links,
    chain: u32,
    key: usize,
}
enum Turn {}
enum Length {}

linked!(Flow, Turn: turn);
linked!(Flow, Length: length);
chained!(Flow: chain);

/// Lists by the same links, and the records that should be in them.
struct Both<By> {
    lists: [List<By>; 3],
    models: [VecDeque<u32>; 3],
}

impl<By> Both<By> {
    fn new() -> Self {
        Self { lists: [List::EMPTY; 3], models: Default::default() }
    }

    fn step<A: Arena<Item: Linked<By>> + ?Sized>(&mut self, arena: &mut A, random: &mut Random) {
        let (at, which) = (random.below(RECORDS) as u32, random.below(3));
        let home = self.models.iter().position(|m| m.contains(&at));
        let (list, model) = (&mut self.lists[which], &mut self.models[which]);
        match (random.below(5), home) {
            (0, _) => assert_eq!(list.pop_front(arena), model.pop_front()),
            (1, Some(home)) if home == which => {
                list.move_to_back(arena, at);
                model.retain(|&other| other != at);
                model.push_back(at);
            }
            (1, _) => {}
            (_, Some(home)) => {
                self.lists[home].remove(arena, at);
                self.models[home].retain(|&other| other != at);
            }
            (2, None) => {
                list.push_front(arena, at);
                model.push_front(at);
            }
            (_, None) => {
                list.push_back(arena, at);
                model.push_back(at);
            }
        }
    }

    fn check<A: Arena<Item: Linked<By>> + ?Sized>(&self, arena: &A, seed: u64) {
        for (list, model) in self.lists.iter().zip(&self.models) {
            assert!(list.iter(arena).eq(model.iter().copied()), "seed {seed}: {list:?} {model:?}");
            assert!(list.iter_back(arena).eq(model.iter().rev().copied()), "seed {seed}: {list:?} {model:?}");
            assert_eq!(
                (list.len() as usize, list.is_empty()),
                (model.len(), model.is_empty()),
                "seed {seed}"
            );
            assert_eq!((list.first(), list.last()), (model.front().copied(), model.back().copied()));
            for (n, &at) in model.iter().enumerate() {
                let near = |n: Option<usize>| n.and_then(|n| model.get(n)).copied();
                assert_eq!(list.after(arena, at), near(n.checked_add(1)), "seed {seed}");
                assert_eq!(list.before(arena, at), near(n.checked_sub(1)), "seed {seed}");
            }
        }
    }
}

#[test]
fn lists_are_deques_from_which_anybody_leaves() {
    seeded(|seed, mut random| {
        let mut flows = vec![Flow::default(); RECORDS];
        let (mut turns, mut lengths) = (Both::<Turn>::new(), Both::<Length>::new());
        for _ in 0..STEPS {
            turns.step(&mut flows, &mut random);
            lengths.step(&mut flows, &mut random);
            turns.check(&flows, seed);
            lengths.check(&flows, seed);
        }
        let (mut links, mut beside) = (vec![Links::NONE; RECORDS], Both::<()>::new());
        for _ in 0..STEPS {
            beside.step(links.as_mut_slice(), &mut random);
            beside.check(links.as_slice(), seed);
        }
    });
}

#[test]
fn head_lists_are_stacks_from_which_anybody_leaves() {
    seeded(|seed, mut random| {
        let mut links = vec![Links::NONE; RECORDS];
        let mut list = HeadList::<()>::EMPTY;
        let mut model: VecDeque<u32> = VecDeque::new();
        for _ in 0..STEPS {
            let at = random.below(RECORDS) as u32;
            if model.contains(&at) {
                list.remove(&mut links, at);
                model.retain(|&other| other != at);
            } else {
                list.push_front(&mut links, at);
                model.push_front(at);
            }
            assert_eq!(
                (list.first(), list.is_empty()),
                (model.front().copied(), model.is_empty()),
                "seed {seed}"
            );
        }
        while let Some(first) = list.first() {
            assert_eq!(Some(first), model.pop_front(), "seed {seed}");
            list.remove(&mut links, first);
        }
        assert!(model.is_empty(), "seed {seed}");
    });
}

#[test]
fn fifos_are_deques_in_one_slab() {
    seeded(|seed, mut random| {
        let mut fifos = Fifos::new();
        let mut queues = [Queue::EMPTY; 4];
        let mut models: [VecDeque<usize>; 4] = Default::default();
        let mut most = 0;
        for item in 0..STEPS {
            let which = random.below(4);
            let (queue, model) = (&mut queues[which], &mut models[which]);
            match random.below(6) {
                0 | 1 => {
                    fifos.push_back(queue, item);
                    model.push_back(item);
                }
                2 => {
                    fifos.push_front(queue, item);
                    model.push_front(item);
                }
                3 => {
                    // Anybody but the first: the one after somebody, or nobody after the last.
                    let n = random.below(model.len().max(1));
                    let before = fifos.iter(queue).nth(n).map(|(at, _)| at);
                    let gone = before.and_then(|at| fifos.remove_after(queue, at));
                    assert_eq!(gone, model.remove(n + 1), "seed {seed}");
                }
                _ => assert_eq!(fifos.pop_front(queue), model.pop_front(), "seed {seed}"),
            }
            for (queue, model) in queues.iter().zip(&models) {
                assert!(fifos.iter(queue).map(|(_, item)| item).eq(model), "seed {seed}");
                assert_eq!(queue.is_empty(), model.is_empty(), "seed {seed}");
            }
            let len: usize = models.iter().map(VecDeque::len).sum();
            most = most.max(len);
            assert_eq!((fifos.len(), fifos.is_empty(), fifos.places()), (len, len == 0, most), "seed {seed}");
        }
    });
}

#[test]
fn a_slab_keeps_what_it_was_given_where_it_said() {
    seeded(|seed, mut random| {
        let (mut slab, mut model) = (Slab::new(), std::collections::BTreeMap::new());
        let mut most = 0;
        for item in 0..STEPS {
            let any = random.below(60) as u32;
            if random.below(2) == 0 {
                assert_eq!(
                    model.insert(slab.insert(item), item),
                    None,
                    "seed {seed}: a place that was taken"
                );
            } else if let Some(item) = model.remove(&any) {
                *slab.at_mut(any) += 1;
                assert_eq!((*slab.at(any), slab.remove(any)), (item + 1, item + 1), "seed {seed}");
            }
            most = most.max(model.len());
            assert_eq!((slab.len(), slab.places(), slab.is_empty()), (model.len(), most, model.is_empty()));
            assert_eq!((slab.get(any), slab.get(NIL)), (model.get(&any), None), "seed {seed}");
            assert_eq!(slab.get_mut(any).copied(), model.get(&any).copied(), "seed {seed}");
        }
    });
}

#[test]
#[should_panic(expected = "no record at 0")]
fn a_place_is_not_freed_twice() {
    let mut slab = Slab::new();
    let at = slab.insert('a');
    assert_eq!(slab.remove(at), 'a');
    slab.remove(at);
}

#[test]
fn chains_find_what_is_in_them() {
    seeded(|seed, mut random| {
        let mut flows: Vec<Flow> = (0..RECORDS).map(|key| Flow { key, ..Flow::default() }).collect();
        let (mut chains, mut there) = (Chains::new(7), [false; RECORDS]);
        for _ in 0..STEPS {
            let key = random.below(RECORDS);
            if there[key] {
                chains.remove(&mut flows, key % 7, key as u32);
            } else {
                chains.push(&mut flows, key % 7, key as u32);
                assert_eq!(chains.head(key % 7), key as u32, "seed {seed}: who came last stands first");
            }
            there[key] = !there[key];
            for (key, &there) in there.iter().enumerate() {
                let found = chains.find(&flows, key % 7, |flow| flow.key == key);
                assert_eq!(found, there.then_some(key as u32), "seed {seed}");
            }
        }
        assert_eq!((chains.buckets(), chains.memory()), (7, 28));
    });
}
