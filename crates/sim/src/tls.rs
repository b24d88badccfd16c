//! TLS 1.3 over TCP, as far as it takes time and bytes (RFC 8446, section 2): the client's hello, then the server's
//! flight; the client's Finished comes with the request, and the server's tickets with the object.

/// Header, content type and tag of an encrypted record (RFC 8446, section 5.2).
const RECORD: u32 = 5 + 1 + 16;
/// Header of a plain record.
const PLAIN_RECORD: u32 = 5;
/// Length of a record that says that the cipher changes (RFC 8446, appendix D.4).
const CHANGE_CIPHER: u32 = 6;

/// Progress of the handshake of a connection. All zero without TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsHandshake {
    /// Bytes of the client's hello that the server has not received.
    hello: u16,
    /// Bytes of the server's flight that the client has not received.
    flight: u16,
    /// Bytes of the server's flight that are not acknowledged.
    unacked: u16,
}

/// Bytes that TLS adds to what goes over TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsSizes {
    pub(crate) handshake: TlsHandshake,
    /// Bytes before the request.
    pub(crate) with_request: u32,
    /// Bytes before the object.
    pub(crate) with_object: u32,
}

impl TlsSizes {
    /// Flights as long as QUIC's with the same TLS, in records of TCP.
    pub(crate) fn of(said: &narrows_quic::Handshake) -> Self {
        let short = |bytes: u32| u16::try_from(bytes).unwrap_or(u16::MAX);
        let flight = short(said.server_hello + PLAIN_RECORD + CHANGE_CIPHER + said.certificate + RECORD);
        Self {
            handshake: TlsHandshake {
                hello: short(said.client_hello + PLAIN_RECORD),
                flight,
                unacked: flight,
            },
            with_request: CHANGE_CIPHER + said.finished + 2 * RECORD,
            with_object: said.tickets + 2 * RECORD,
        }
    }
}

impl TlsHandshake {
    /// Whether anything of it is still to be delivered or acknowledged: until then what an end of TCP tells is not only
    /// of the object.
    pub(crate) const fn is_under_way(&self) -> bool {
        self.hello > 0 || self.flight > 0 || self.unacked > 0
    }

    /// Bytes of the client's hello that are due.
    pub(crate) fn hello(&self) -> u64 {
        self.hello.into()
    }

    /// Notes that the server has received `bytes`. Returns the length of its flight if these end the hello, 0 if more
    /// of that is to come, and `None` if they are of no hello.
    pub(crate) fn asked(&mut self, bytes: u64) -> Option<u64> {
        let of_it = take(&mut self.hello, bytes);
        (of_it > 0).then(|| if self.hello == 0 { self.flight.into() } else { 0 })
    }

    /// Notes that the client has received `bytes`. Returns whether these end the server's flight; `None` if they are of
    /// no flight.
    pub(crate) fn answered(&mut self, bytes: u64) -> Option<bool> {
        let of_it = take(&mut self.flight, bytes);
        (of_it > 0).then_some(self.flight == 0)
    }

    /// Number of the acknowledged `bytes` that are not of the server's flight, which is counted down.
    pub(crate) fn acked(&mut self, bytes: u64) -> u64 {
        bytes - take(&mut self.unacked, bytes)
    }
}

/// Takes from what is left as many of `bytes` as there are.
fn take(left: &mut u16, bytes: u64) -> u64 {
    let taken = u16::try_from(bytes).unwrap_or(u16::MAX).min(*left);
    *left -= taken;
    taken.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_by_hand() {
        let said = narrows_quic::Handshake {
            client_hello: 280,
            server_hello: 90,
            certificate: 600,
            finished: 52,
            tickets: 162,
        };
        let sizes = TlsSizes::of(&said);
        // 52 in two records after a change of cipher with the request; two records before the object.
        assert_eq!((sizes.with_request, sizes.with_object), (6 + 52 + 44, 162 + 44));
        let mut tls = sizes.handshake;
        assert_eq!((tls.hello(), tls.asked(200), tls.asked(85)), (285, Some(0), Some(90 + 5 + 6 + 600 + 22)));
        assert_eq!((tls.asked(120), tls.answered(700), tls.answered(23)), (None, Some(false), Some(true)));
        assert!(tls.is_under_way() && tls.answered(1).is_none());
        assert_eq!((tls.acked(700), tls.acked(100), tls.is_under_way()), (0, 77, false));
    }
}
