//! quinn's ends, driven as its own runtime does: what there is to send leaves before the application hears.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, EndpointConfig,
    Event, ServerConfig, StreamEvent, StreamId, TransportConfig, VarInt,
};
use rustls::pki_types::PrivatePkcs8KeyDer;

use crate::quinn::link::{self, Script};
use crate::quinn::ours::REQUEST;

/// Skips no packet number among those that are sent here: quinn skips one of the first 64 and then ever fewer.
const SEED: [u8; 32] = [7; 32];

pub struct Host {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    client: Option<ClientConfig>,
    /// Time zero.
    base: Instant,
    bytes: u64,
    came: u64,
    stream: Option<StreamId>,
}

fn transport(script: &Script) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    if script.reno {
        config.congestion_controller_factory(Arc::new(NewRenoConfig::default()));
    } else {
        config.congestion_controller_factory(Arc::new(CubicConfig::default()));
    }
    if !script.mtu_search {
        config.mtu_discovery_config(None);
    }
    Arc::new(config)
}

/// A certificate of its own, whose key signs in the same number of bytes each time: Ed25519.
struct Identity {
    certificate: rustls::pki_types::CertificateDer<'static>,
    key: Vec<u8>,
}

fn identity() -> &'static Identity {
    static IDENTITY: std::sync::OnceLock<Identity> = std::sync::OnceLock::new();
    IDENTITY.get_or_init(|| {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let certificate =
            rcgen::CertificateParams::new(["lab".to_owned()]).unwrap().self_signed(&key).unwrap();
        Identity { certificate: certificate.der().clone(), key: key.serialize_der() }
    })
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Host {
    fn new(script: &Script, server: Option<ServerConfig>, client: Option<ClientConfig>) -> Self {
        let config = Arc::new(EndpointConfig::default());
        let endpoint = Endpoint::new(config, server.map(Arc::new), true, Some(SEED));
        Self { endpoint, connection: None, client, base: base(), bytes: script.bytes, came: 0, stream: None }
    }

    pub fn client(script: &Script) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(identity().certificate.clone()).unwrap();
        let tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        config.transport_config(transport(script));
        Self::new(script, None, Some(config))
    }

    pub fn server(script: &Script) -> Self {
        let key = PrivatePkcs8KeyDer::from(identity().key.clone());
        let tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![identity().certificate.clone()], key.into())
            .unwrap();
        let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
        config.transport_config(transport(script));
        Self::new(script, Some(config), None)
    }

    fn at(&self, now: u64) -> Instant {
        self.base + Duration::from_nanos(now)
    }

    fn drive(&mut self, now: u64) -> Vec<(Vec<u8>, usize)> {
        // Its NewReno takes what leaves in the instant of its making for what was sent before a congestion event.
        let now = self.at(now) + Duration::from_nanos(1);
        let mut out = Vec::new();
        let Some((handle, mut connection)) = self.connection.take() else { return out };
        loop {
            loop {
                let mut buffer = Vec::new();
                if connection.poll_transmit(now, 1, &mut buffer).is_none() {
                    break;
                }
                let len = buffer.len();
                out.push((buffer, len));
            }
            let mut more = false;
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(answer) = self.endpoint.handle_event(handle, event) {
                    connection.handle_event(answer);
                    more = true;
                }
            }
            if !more {
                while let Some(event) = connection.poll() {
                    more |= self.application(&mut connection, now, &event);
                }
            }
            if !more {
                break;
            }
        }
        self.connection = Some((handle, connection));
        out
    }

    /// Plays the application's part after an event; tells whether it did anything.
    fn application(&mut self, connection: &mut Connection, now: Instant, event: &Event) -> bool {
        match event {
            Event::Connected if self.client.is_some() => {
                let stream = connection.streams().open(Dir::Bi).unwrap();
                self.stream = Some(stream);
                answer(connection, stream, REQUEST);
                true
            }
            Event::Stream(StreamEvent::Opened { .. }) => {
                self.stream = connection.streams().accept(Dir::Bi);
                self.read(connection, now)
            }
            Event::Stream(StreamEvent::Readable { .. }) => self.read(connection, now),
            _ => false,
        }
    }

    fn read(&mut self, connection: &mut Connection, now: Instant) -> bool {
        let Some(stream) = self.stream else { return false };
        let mut receive = connection.recv_stream(stream);
        let Ok(mut chunks) = receive.read(false) else { return false };
        let before = self.came;
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            self.came += chunk.bytes.len() as u64;
        }
        let _ = chunks.finalize();
        let all = |bytes: u64| before < bytes && self.came == bytes;
        if self.client.is_none() && all(REQUEST) {
            answer(connection, stream, self.bytes);
        } else if self.client.is_some() && all(self.bytes) {
            connection.close(now, VarInt::from_u32(0), Default::default());
        }
        true
    }
}

fn answer(connection: &mut Connection, stream: StreamId, bytes: u64) {
    let mut send = connection.send_stream(stream);
    assert_eq!(send.write(&vec![b'.'; bytes as usize]), Ok(bytes as usize));
    send.finish().unwrap();
}

/// Any instant serves as time zero.
#[expect(clippy::disallowed_methods, reason = "quinn's instants begin somewhere; none is read again")]
fn base() -> Instant {
    Instant::now()
}

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 443);

impl link::Host for Host {
    type Datagram = Vec<u8>;

    fn open(&mut self, now: u64) -> Vec<(Vec<u8>, usize)> {
        let config = self.client.clone().unwrap();
        self.connection = Some(self.endpoint.connect(self.at(now), config, ADDRESS, "lab").unwrap());
        self.drive(now)
    }

    fn take(&mut self, now: u64, datagram: Vec<u8>, marked: bool) -> Vec<(Vec<u8>, usize)> {
        let ecn = if marked { EcnCodepoint::Ce } else { EcnCodepoint::Ect0 };
        let (at, mut buffer) = (self.at(now), Vec::new());
        let data = datagram.as_slice().into();
        match self.endpoint.handle(at, ADDRESS, None, Some(ecn), data, &mut buffer) {
            Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                self.connection = Some(self.endpoint.accept(incoming, at, &mut buffer, None).ok().unwrap());
            }
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            // A stateless reset, or a late copy of the first Initial, for what is closed: ours are silent then.
            _ => {}
        }
        self.drive(now)
    }

    fn wake(&mut self, now: u64) -> Vec<(Vec<u8>, usize)> {
        let at = self.at(now);
        if let Some((_, connection)) = &mut self.connection {
            connection.handle_timeout(at);
        }
        self.drive(now)
    }

    fn wake_at(&mut self) -> Option<u64> {
        let at = self.connection.as_mut()?.1.poll_timeout()?;
        Some(u64::try_from(at.duration_since(self.base).as_nanos()).unwrap())
    }
}
