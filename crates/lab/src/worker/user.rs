//! Addresses of users, and the generators that decide what they do.

use std::net::Ipv4Addr;

/// The address of a user.
#[must_use]
pub fn user_address(user: u32) -> Ipv4Addr {
    let [_, _, high, low] = (user / 250 * 256 + user % 250 + 257).to_be_bytes();
    Ipv4Addr::new(10, 77, high, low)
}

/// Number of the user who has an address; `None` if no user has it.
pub(super) fn user_at(address: Ipv4Addr) -> Option<u32> {
    let [10, 77, high, low] = address.octets() else { return None };
    let n = (u32::from(high) * 256 + u32::from(low)).checked_sub(257)?;
    Some(n / 256 * 250 + n % 256).filter(|user| user_address(*user) == address)
}

/// The draws of one connection of a user; fastrand mixes its seed, and near seeds give unrelated streams.
pub(super) fn rng(seed: u64, user: u32, connection: u32) -> fastrand::Rng {
    let seed = seed ^ (u64::from(user) << 32 | u64::from(connection) << 20);
    fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_user_has_an_address_of_its_own() {
        assert_eq!(user_address(0), Ipv4Addr::new(10, 77, 1, 1));
        assert_eq!(user_address(249), Ipv4Addr::new(10, 77, 1, 250));
        assert_eq!(user_address(250), Ipv4Addr::new(10, 77, 2, 1));
        assert_eq!(user_address(9_999), Ipv4Addr::new(10, 77, 40, 250));
        assert!([0, 249, 250, 9_999].into_iter().all(|u| user_at(user_address(u)) == Some(u)));
        assert_eq!(user_at(Ipv4Addr::new(10, 77, 1, 251)), None);
        assert_eq!(user_at(Ipv4Addr::new(10, 78, 1, 2)), None);
    }
}
