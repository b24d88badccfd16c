//! Requests of users and headers of replies: HTTP in shape, of fixed lengths.

/// Length of every reply's header.
pub const HEADER: usize = 200;
/// Length of every request.
pub const REQUEST: usize = 120;

/// Number of bytes that a request asks for.
pub(super) fn wanted(request: &[u8]) -> std::io::Result<u64> {
    std::str::from_utf8(request)
        .ok()
        .and_then(|r| r.strip_prefix("GET /")?.split(' ').next()?.parse().ok())
        .ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// Header of a reply, [`HEADER`] bytes long.
pub(super) fn header(size: u64) -> [u8; HEADER] {
    padded(&format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nConnection: close\r\nX-Pad: "))
}

/// `head`, filled up with a header's worth of padding and ended by an empty line.
pub(super) fn padded<const N: usize>(head: &str) -> [u8; N] {
    let mut out = [b'x'; N];
    let n = head.len().min(N - 4);
    out[..n].copy_from_slice(&head.as_bytes()[..n]);
    out[N - 4..].copy_from_slice(b"\r\n\r\n");
    out
}
