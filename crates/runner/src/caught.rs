//! Panics of the simulator: each is a bug of ours, and no reason to lose other runs, or the program around.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work` and returns its result.
///
/// # Errors
/// Returns the message of a panic, in a sentence for the user.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    // State half changed by a panic is never used again: a run's world goes down with it.
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|panic| format!("a bug in the simulator, please report it: {}", words(panic.as_ref())))
}

/// Message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic")
}

#[cfg(test)]
mod tests {
    use super::caught;

    #[test]
    fn a_panic_is_a_sentence() {
        let told = |why: &str| Err::<(), _>(format!("a bug in the simulator, please report it: {why}"));
        assert_eq!(caught(|| 3), Ok(3));
        assert_eq!(caught(|| panic!("no such queue")), told("no such queue"));
        let queue = 7;
        assert_eq!(caught(|| panic!("no queue {queue}")), told("no queue 7"));
        assert_eq!(caught(|| std::panic::panic_any(7)), told("a panic"));
    }
}
