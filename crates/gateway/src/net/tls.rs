//! Who is trusted, and the data port's own certificate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use config::TlsPem;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// A provider's own certificates, in PEM; `None` for the system's alone.
type OwnRoots = Option<Arc<[u8]>>;

/// The system's roots (Mozilla's where the system has none) and, per provider, its own.
#[derive(Debug)]
pub struct Roots {
    system: RootCertStore,
    /// One per distinct `ca` in use; bounded by the configuration.
    built: Mutex<HashMap<OwnRoots, Arc<ClientConfig>>>,
}

impl Roots {
    /// Reads the system's roots once.
    #[must_use]
    pub fn of_system() -> Self {
        let mut system = RootCertStore::empty();
        system.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if system.is_empty() {
            system.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        }
        Self { system, built: Mutex::new(HashMap::new()) }
    }

    /// The TLS client settings for a provider with those extra roots.
    ///
    /// # Errors
    /// A sentence when the PEM text holds no certificate.
    pub fn client_config(&self, extra: Option<&Arc<[u8]>>) -> Result<Arc<ClientConfig>, String> {
        let key = extra.cloned();
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(config) = built.get(&key) {
            return Ok(config.clone());
        }
        let mut roots = self.system.clone();
        if let Some(pem) = extra {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| format!("`ca` is no PEM file: {error}"))?;
                roots.add(certificate).map_err(|error| format!("`ca` holds no usable certificate: {error}"))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        built.insert(key, config.clone());
        Ok(config)
    }

    /// A reload: providers' roots are read anew.
    pub fn reset(&self) {
        self.built.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The data port's TLS settings from its PEM texts.
///
/// # Errors
/// A sentence that says which of the two files cannot be used and why.
pub fn server_config(pem: &TlsPem) -> Result<Arc<ServerConfig>, String> {
    let chain = CertificateDer::pem_slice_iter(&pem.cert)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("tls.cert is no PEM file: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(pem.key.expose().as_bytes())
        .map_err(|error| format!("tls.key is no PEM file: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| format!("tls.cert and tls.key do not fit: {error}"))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
