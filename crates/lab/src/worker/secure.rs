//! TLS 1.3 and QUIC as both ends of the lab speak them: one certificate made for the run, which the users take as it
//! comes; every handshake is a whole one, because every connection is a new one.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use quinn::congestion::{BbrConfig, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{IdleTimeout, TransportConfig};
use rcgen::PublicKeyData as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, ServerConfig, SignatureScheme};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Name in the certificate.
pub const HOST: &str = "lab";
/// Port of TLS over TCP, and of QUIC over UDP.
pub const SECURE_PORT: u16 = 443;
/// Datagram size in bytes with which quinn begins: the least that RFC 9000 allows (section 14).
const DATAGRAM: u64 = 1200;
/// Idle timeout of QUIC: longer than any stall, so that no stall ends a connection.
const IDLE: Duration = Duration::from_secs(600);

/// Settings of QUIC's senders.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct QuicSettings {
    /// `cubic`, `reno` or `bbr`; any other of the kernel's is CUBIC here.
    pub congestion_control: String,
    /// Packets of 1200 bytes; `None` for quinn's own.
    pub initial_window: Option<u32>,
}

impl QuicSettings {
    /// Converts the settings to quinn's.
    ///
    /// # Errors
    /// If quinn refuses the idle time-out.
    pub(super) fn transport(&self) -> anyhow::Result<TransportConfig> {
        let mut config = TransportConfig::default();
        config.max_idle_timeout(Some(IdleTimeout::try_from(IDLE)?));
        // The queue would be handed trains of datagrams in one.
        config.enable_segmentation_offload(false);
        let window = self.initial_window.map(|packets| u64::from(packets) * DATAGRAM);
        match self.congestion_control.as_str() {
            "bbr" => {
                let mut bbr = BbrConfig::default();
                window.map(|w| bbr.initial_window(w));
                config.congestion_controller_factory(Arc::new(bbr));
            }
            "reno" => {
                let mut reno = NewRenoConfig::default();
                window.map(|w| reno.initial_window(w));
                config.congestion_controller_factory(Arc::new(reno));
            }
            _ => {
                let mut cubic = CubicConfig::default();
                window.map(|w| cubic.initial_window(w));
                config.congestion_controller_factory(Arc::new(cubic));
            }
        }
        Ok(config)
    }
}

/// Certificate and private key made for one run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Identity {
    certificate: Vec<u8>,
    key: Vec<u8>,
    /// SHA-256 of the public key's SubjectPublicKeyInfo, by which a browser accepts the self-signed certificate.
    pub spki_sha256: Vec<u8>,
}

impl Identity {
    /// Makes a certificate and its key.
    ///
    /// # Errors
    /// If no key can be made.
    pub fn new() -> anyhow::Result<Self> {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).context("certificate")?;
        Ok(Self {
            certificate: made.cert.der().to_vec(),
            key: made.signing_key.serialize_der(),
            spki_sha256: Sha256::digest(made.signing_key.subject_public_key_info()).to_vec(),
        })
    }
}

/// Settings of the server's TLS, which offers the protocols in `speak`, or none.
pub(super) fn server_tls(identity: &Identity, speak: &[&[u8]]) -> anyhow::Result<ServerConfig> {
    let key = PrivatePkcs8KeyDer::from(identity.key.clone());
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate.clone().into()], key.into())?;
    config.alpn_protocols = speak.iter().map(|s| s.to_vec()).collect();
    Ok(config)
}

/// The server's side of QUIC.
pub(super) fn server_quic(tls: ServerConfig, settings: &QuicSettings) -> anyhow::Result<quinn::ServerConfig> {
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(settings.transport()?));
    Ok(config)
}

/// Users' side of TLS, with the protocol `speak` for ALPN; without ALPN for `None`.
pub(super) fn client_tls(speak: Option<&[u8]>) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = speak.iter().map(|s| s.to_vec()).collect();
    config.resumption = rustls::client::Resumption::disabled();
    Ok(config)
}

/// The users' side of QUIC; `window` limits the bytes under way to a user, if not quinn's own.
pub(super) fn client_quic(
    tls: ClientConfig,
    settings: &QuicSettings,
    window: Option<u32>,
) -> anyhow::Result<quinn::ClientConfig> {
    let mut config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    let mut transport = settings.transport()?;
    window.map(|w| transport.receive_window(w.into()));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// Accepts any certificate, as a lab's is self-signed; the signature with it is checked as always.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
