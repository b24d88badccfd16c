//! Functions that a browser calls: text in, text out, through memory that both see. Built by `make explore`.
#![allow(unsafe_code, reason = "a name that JavaScript can call is an unsafe attribute")]

use core::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// Question and, after [`answer`], the answer to the question.
static TEXT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Makes room for a question of `length` bytes, and says where.
#[unsafe(no_mangle)]
pub extern "C" fn room(length: usize) -> *mut u8 {
    let mut text = TEXT.lock().unwrap_or_else(PoisonError::into_inner);
    *text = vec![0; length];
    text.as_mut_ptr()
}

/// Answers the question; the answer's address times 2^32 plus its length.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> u64 {
    let mut text = TEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let question = String::from_utf8_lossy(&text).into_owned();
    *text = crate::answer(&question, &mut |_| ControlFlow::Continue(())).into_bytes();
    ((text.as_ptr() as usize as u64) << 32) | text.len() as u64
}
