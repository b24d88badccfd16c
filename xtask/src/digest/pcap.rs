//! Records of a capture that `narrows` wrote: nanosecond pcap, little-endian.

use anyhow::{Result, ensure};

use super::table::Builder;

/// The columns that [`add`] fills.
pub const COLUMNS: [&str; 2] = ["at", "bytes"];

/// Adds a row for each packet of a capture: time stamp, lengths and bytes.
pub fn add(table: &mut Builder, capture: &[u8]) -> Result<()> {
    ensure!(capture.starts_with(&0xa1b2_3c4d_u32.to_le_bytes()), "no nanosecond pcap");
    ensure!(capture.len() >= 24, "ends inside its header");
    let mut rest = &capture[24..];
    while !rest.is_empty() {
        ensure!(rest.len() >= 16, "ends inside a record's header");
        let (head, body) = rest.split_at(16);
        let len = u32::from_le_bytes([head[8], head[9], head[10], head[11]]) as usize;
        ensure!(body.len() >= len, "ends inside a packet");
        let (packet, after) = body.split_at(len);
        table.bytes([head, packet])?;
        rest = after;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::recording;
    use super::*;

    #[test]
    fn packets_are_counted_and_cuts_found() {
        let mut bytes = Vec::new();
        recording::write(&mut bytes, 3, 50).unwrap();
        let mut table = Builder::new(COLUMNS);
        add(&mut table, &bytes).unwrap();
        assert_eq!(table.finish("t").rows, 50);
        for cut in [10, 30, bytes.len() - 1] {
            assert!(add(&mut Builder::new(COLUMNS), &bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
