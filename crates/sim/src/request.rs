//! Requests of applications to ends.

/// Request of an application to an end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request {
    Open,
    /// Send as many bytes more as given; `u64::MAX` without end.
    Write(u64),
    /// Nothing more will be written.
    Finish,
    /// The connection is no longer needed.
    Close,
}
