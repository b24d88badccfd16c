//! Names of interfaces; `*` at the end of a name stands for any ending.

use narrows_netio::links::Interface;

/// Name of an interface beside its entry in the kernel's list.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// Name without an open ending.
    pub name: &'a str,
    /// Interface as the kernel lists it.
    pub link: &'a Interface,
}

/// Whether `name`, which may have an open ending, stands for this interface.
#[must_use]
pub fn covers(name: &str, interface: &str) -> bool {
    name.strip_suffix('*').map_or(name == interface, |beginning| interface.starts_with(beginning))
}

/// Whether some interface has both names, which may have open endings.
#[must_use]
pub fn overlap(one: &str, other: &str) -> bool {
    let beginning = |name: &str| name.strip_suffix('*').unwrap_or(name).to_owned();
    covers(one, &beginning(other)) || covers(other, &beginning(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_open_endings() {
        assert!(covers("ppp*", "ppp12") && covers("ppp*", "ppp") && !covers("ppp*", "pp"));
        assert!(covers("ppp1", "ppp1") && !covers("ppp1", "ppp12"));
        assert!(overlap("ppp*", "ppp1*") && overlap("ppp1*", "ppp*") && overlap("ppp1", "ppp*"));
        assert!(!overlap("ppp1*", "ppp2*") && !overlap("ppp1", "ppp2"));
    }
}
