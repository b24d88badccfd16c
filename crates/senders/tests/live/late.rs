//! A test judges what a sender decided. What it is told, and when, a machine without processor time to spare has a part
//! in: then the same is done again, and where it never comes out well, the test says so and is skipped.

use narrows_testing::skip;

/// How often something is done until the machine leaves it alone.
const ATTEMPTS: usize = 5;

/// Does something until the machine had no part in it: `attempt` panics about what was decided wrongly, and returns what
/// the machine did. `what` names this part of the `test`.
pub fn until_undisturbed(test: &str, what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let mut disturbed = String::new();
    for _ in 0..ATTEMPTS {
        match attempt() {
            Ok(()) => return,
            Err(how) => disturbed = how,
        }
        eprintln!("{test}: {what}: again, as the machine was busy: {disturbed}");
    }
    skip(
        test,
        format!("{what}: the machine was busy in each of {ATTEMPTS} attempts; in the last, {disturbed}"),
    );
}
