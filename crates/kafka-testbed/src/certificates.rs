//! Certificates for the broker's TLS listeners and for clients, made anew for each cluster.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// Where the certificates of a cluster lie, as PEM files.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority that signed the broker's and the client's certificate.
    pub authority: PathBuf,
    /// An authority that signed neither.
    pub other_authority: PathBuf,
    /// The client's certificate, for `CN=client`.
    pub client_certificate: PathBuf,
    /// The client's key.
    pub client_key: PathBuf,
    /// Key and certificate of the brokers, for 127.0.0.1 only: the name `localhost` does not fit.
    pub(crate) broker: PathBuf,
}

impl Certificates {
    pub(crate) fn make(folder: &Path) -> Result<Certificates> {
        let made = Certificates {
            authority: folder.join("authority.pem"),
            other_authority: folder.join("other-authority.pem"),
            client_certificate: folder.join("client.pem"),
            client_key: folder.join("client-key.pem"),
            broker: folder.join("broker.pem"),
        };
        let issuer = authority(&made.authority)?;
        authority(&made.other_authority)?;
        let (certificate, key) = leaf("broker", "127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth, &issuer)?;
        fs::write(&made.broker, format!("{key}{certificate}"))?;
        let (certificate, key) = leaf("client", "client", ExtendedKeyUsagePurpose::ClientAuth, &issuer)?;
        fs::write(&made.client_certificate, certificate)?;
        fs::write(&made.client_key, key)?;
        Ok(made)
    }
}

fn authority(path: &Path) -> Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "authority");
    let key = KeyPair::generate()?;
    fs::write(path, params.self_signed(&key)?.pem())?;
    Ok(Issuer::new(params, key))
}

fn leaf(common: &str, address: &str, usage: ExtendedKeyUsagePurpose, issuer: &Issuer<'static, KeyPair>) -> Result<(String, String)> {
    let mut params = CertificateParams::new(vec![address.to_owned()])?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common);
    params.extended_key_usages = vec![usage];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}
