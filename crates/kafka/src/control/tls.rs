//! TLS to a broker, by the settings of librdkafka.
//!
//! Owns: which certificates are trusted and shown. Does not own: sockets.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use staunch_types::{Error, ErrorKind, Result};

use crate::codes;
use crate::settings::{NameCheck, Pem, TlsSettings};

/// What every connection of a client is made with. Reads the certificate files, each by the path that librdkafka reads it by.
///
/// # Errors
/// `Invalid` when a certificate or key cannot be used.
pub(super) fn configure(settings: &TlsSettings) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(default_provider());
    let unusable = |what: &str, error: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Invalid, codes::CERTIFICATE_BAD, format!("{what} cannot be used")).cause(error)
    };
    let authorities = Arc::new(authorities(settings.authorities.as_ref())?);
    let verifier = WebPkiServerVerifier::builder_with_provider(authorities, Arc::clone(&provider)).build();
    let verifier = verifier.map_err(|error| unusable("the authorities of ssl.ca.location", &error))?;
    let verifier: Arc<dyn ServerCertVerifier> = match settings.names {
        NameCheck::Host => verifier,
        NameCheck::AnyName => Arc::new(AnyName(verifier)),
    };
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable("TLS", &error))?.dangerous().with_custom_certificate_verifier(verifier);
    let config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let shown = certificates(certificate, "ssl.certificate.location")?;
            let key = private_key(key)?;
            builder.with_client_auth_cert(shown, key).map_err(|error| unusable("ssl.certificate.location with ssl.key.location", &error))?
        }
    };
    Ok(Arc::new(config))
}

fn authorities(given: Option<&Pem>) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    let trusted = match given {
        Some(pem) => certificates(pem, "ssl.ca.location")?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let (added, _refused) = store.add_parsable_certificates(trusted);
    if added == 0 {
        let what = "no authority is trusted: the system has none, or ssl.ca.location holds none";
        let remedy = "set ssl.ca.location to a PEM file with the authority that signed the brokers' certificates";
        return Err(Error::new(ErrorKind::Invalid, codes::CERTIFICATE_BAD, what).remedy(remedy));
    }
    Ok(store)
}

fn certificates(pem: &Pem, setting: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = match pem {
        Pem::File(path) => CertificateDer::pem_file_iter(path).and_then(Iterator::collect),
        Pem::Text(text) => CertificateDer::pem_slice_iter(text.as_bytes()).collect(),
    };
    match found {
        Ok(found) if found.is_empty() => Err(unreadable(pem, setting, &"there is no certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(unreadable(pem, setting, &error)),
    }
}

fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>> {
    let found = match pem {
        Pem::File(path) => PrivateKeyDer::from_pem_file(path),
        Pem::Text(text) => PrivateKeyDer::from_pem_slice(text.as_bytes()),
    };
    found.map_err(|error| unreadable(pem, "ssl.key.location", &error))
}

fn unreadable(pem: &Pem, setting: &str, cause: &dyn std::fmt::Display) -> Error {
    let error = Error::new(ErrorKind::Invalid, codes::CERTIFICATE_BAD, format!("{setting} cannot be read as PEM")).cause(cause);
    let error = error.remedy(format!("set {setting} to a PEM file that this user may read"));
    match pem {
        Pem::File(path) => error.at(format!("file={path}")),
        Pem::Text(_) => error,
    }
}

/// Accepts any name in a certificate that an authority has signed.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last, when all else was found right.
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
