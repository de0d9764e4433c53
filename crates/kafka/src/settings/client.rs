//! What sources and sinks have in common: where the brokers are, and settings by librdkafka's names.
//!
//! Owns: their checks, and the forms that librdkafka and the control client want. Does not own: what a source or a sink sets itself.

use std::collections::BTreeMap;

use rdkafka::config::ClientConfig;
use staunch_types::Result;

use crate::codes::setting;
use crate::control::{Control, Interrupt};
use crate::settings::ClientSettings;

const BROKERS: &str = "bootstrap.servers";

/// Brokers, and settings as given.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) brokers: String,
    properties: BTreeMap<String, String>,
}

impl Client {
    pub(crate) fn new(brokers: &str) -> Client {
        Client { brokers: brokers.to_owned(), properties: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.properties.insert(name.to_owned(), value.to_owned());
    }

    /// # Errors
    /// `Invalid` when there are no brokers, or a setting is one of those that its user sets itself.
    pub(crate) fn check(&self, own: &[&str], whose: &str) -> Result<()> {
        if self.brokers.trim().is_empty() {
            return Err(setting("expected the addresses of brokers, found none", "give them as `host:port,host:port`"));
        }
        match own.iter().chain(&[BROKERS]).find(|name| self.properties.contains_key(**name)) {
            Some(name) => Err(setting(format!("`{name}` is set by the {whose} itself"), "leave it out; see the methods beside `property`")),
            None => Ok(()),
        }
    }

    /// For librdkafka; `defaults` hold where nothing is given.
    pub(crate) fn config(&self, defaults: &[(&str, &str)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        for (name, value) in defaults {
            config.set(*name, *value);
        }
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set(BROKERS, &self.brokers);
        config
    }

    /// A control client; nothing is connected yet.
    ///
    /// # Errors
    /// `Invalid` when a setting of the connection cannot work.
    pub(crate) fn control(&self) -> Result<Control> {
        let mut named = self.properties.clone();
        named.insert(BROKERS.into(), self.brokers.clone());
        Control::new(ClientSettings::parse(&named)?, Interrupt::default())
    }
}
