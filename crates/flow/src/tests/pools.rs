//! Pools.

use core::net::IpAddr;

use super::*;
use crate::{Inserted, Pools};

fn user(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

#[test]
fn a_pool_is_joined_for_a_while() {
    let mut p = Pools::new(10, 1);
    assert_eq!(p.insert(ms(1000), user(1), 'a', |_| true), Inserted::Room);
    let pool = p.refresh(ms(2000), user(1)).unwrap();
    pool.state = 'b';
    assert!(pool.joins(ms(3999), millis(3000)) && !pool.joins(ms(4000), millis(3000)));
    assert_eq!((pool.started(), pool.seen(), pool.address()), (ms(1000), ms(2000), user(1)));
    assert_eq!(p.insert(ms(5000), user(1), 'c', |_| true), Inserted::Replaced('b'));
    assert_eq!((p.len(), p.get(user(1)).unwrap().started()), (1, ms(5000)));
}

#[test]
fn the_first_idle_one_makes_room() {
    let mut p = Pools::new(3, 1);
    for n in 1..=3 {
        p.insert(ms(u64::from(n)), user(n), n, |_| true);
    }
    assert_eq!(p.insert(ms(9), user(4), 4, |pool| pool.state != 1), Inserted::Evicted(user(2), 2));
    assert_eq!(p.insert(ms(9), user(5), 5, |_| false), Inserted::Full(5));
    let order: Vec<_> = p.iter().map(|pool| pool.state).collect();
    assert_eq!(order, [1, 3, 4]);
}

#[test]
fn against_a_plain_list() {
    for seed in 1..50 {
        let mut rng = crate::fuzzing::XorShift::new(seed);
        let mut p = Pools::new(20, seed);
        let mut list: Vec<(IpAddr, u64)> = Vec::new();
        for step in 0..400 {
            let who = user(rng.below(40) as u8);
            if rng.below(3) == 0 {
                let old = list.iter().position(|e| e.0 == who).map(|i| list.remove(i).1);
                assert_eq!(p.remove(who), old, "seed {seed}");
            } else {
                list.retain(|e| e.0 != who);
                if list.len() == 20 {
                    list.remove(0);
                }
                list.push((who, step));
                p.insert(ms(step), who, step, |_| true);
            }
            let seen: Vec<_> = p.iter().map(|e| (e.address(), e.state)).collect();
            assert_eq!(seen, list, "seed {seed}");
            assert_eq!((p.len(), p.is_empty()), (list.len(), list.is_empty()));
            for (who, state) in &list {
                assert_eq!(p.get(*who).map(|e| e.state), Some(*state));
            }
        }
    }
}
