//! A cluster of one or three brokers.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::broker::Broker;
use crate::certificates::Certificates;
use crate::installed::Installed;
use crate::janitor::Janitor;
use crate::judge::Judge;
use crate::ports;
use crate::settings::{Listener, Options, properties};

/// Starts before giving up, when somebody else takes a port that was free.
const STARTS_MAX: u32 = 3;
const TOOL_HEAP_MIB_MAX: u32 = 128;

/// A cluster that runs until this value is dropped or the process ends.
#[derive(Debug)]
pub struct Cluster {
    // The order is that of the end: first the brokers, then the folder.
    brokers: Vec<Broker>,
    janitor: Janitor,
    installed: Installed,
    ports: Vec<Vec<u16>>,
    certificates: Certificates,
}

/// The one broker that all tests of a process share; it ends with the process.
///
/// # Panics
/// When it cannot be started.
#[must_use]
pub fn shared() -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(&Options::one()).unwrap_or_else(|error| panic!("no Kafka for this test: {error:?}")))
}

impl Cluster {
    /// Starts a cluster and waits until it answers.
    ///
    /// # Errors
    /// When Kafka is not installed or a broker does not start, with what it said.
    pub fn start(options: &Options) -> Result<Cluster> {
        ensure!(matches!(options.brokers, 1 | 3), "a cluster has one or three brokers, not {}", options.brokers);
        let installed = Installed::find()?;
        let mut attempt = 1;
        loop {
            match Cluster::start_once(&installed, options) {
                Err(error) if attempt < STARTS_MAX && format!("{error:?}").contains("Address already in use") => attempt += 1,
                answer => return answer,
            }
        }
    }

    fn start_once(installed: &Installed, options: &Options) -> Result<Cluster> {
        let janitor = Janitor::start()?;
        let certificates = Certificates::make(janitor.folder())?;
        let ports = (0..options.brokers).map(|_| ports::free(Listener::ALL.len())).collect::<Result<Vec<_>>>()?;
        let mut brokers = Vec::new();
        for node in 1..=options.brokers {
            let folder = janitor.folder().join(format!("broker-{node}"));
            fs::create_dir(&folder)?;
            let text = properties(options, node, &ports, &folder, &certificates);
            let mut broker = Broker::prepare(installed, &folder, options, node, &text)?;
            let started = broker.start(installed)?;
            brokers.push((broker, started));
        }
        for (broker, started) in &mut brokers {
            broker.wait(started)?;
        }
        let brokers = brokers.into_iter().map(|(broker, _)| broker).collect();
        Ok(Cluster { brokers, janitor, installed: installed.clone(), ports, certificates })
    }

    /// Addresses of the listener without encryption, as clients want them.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.address(Listener::Plain)
    }

    /// Addresses of one listener at all brokers, separated by commas.
    #[must_use]
    pub fn address(&self, listener: Listener) -> String {
        let addresses: Vec<String> = self.ports.iter().map(|own| format!("127.0.0.1:{}", own[listener.index()])).collect();
        addresses.join(",")
    }

    /// The certificates of its TLS listeners and for its clients.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Where its storage and logs lie while it runs.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.janitor.folder()
    }

    /// Kills a broker with SIGKILL. Nodes count from 1.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn kill(&mut self, node: u32) -> Result<()> {
        self.broker(node)?.kill();
        Ok(())
    }

    /// Starts a killed broker again, with its old storage and ports, and waits until it answers.
    ///
    /// # Errors
    /// When it does not start.
    pub fn restart(&mut self, node: u32) -> Result<()> {
        let installed = self.installed.clone();
        let broker = self.broker(node)?;
        broker.kill();
        let started = broker.start(&installed)?;
        broker.wait(&started)
    }

    fn broker(&mut self, node: u32) -> Result<&mut Broker> {
        let at = (node as usize).checked_sub(1);
        at.and_then(|at| self.brokers.get_mut(at)).ok_or_else(|| anyhow!("no broker has the number {node}"))
    }

    /// A judge of what lies in this cluster.
    ///
    /// # Errors
    /// When its Python cannot be started.
    pub fn judge(&self) -> Result<Judge> {
        Judge::start(&self.installed, &self.bootstrap())
    }

    /// All transactions that the brokers know, as Kafka's own tool lists them.
    ///
    /// # Errors
    /// When the tool fails.
    pub fn transactions(&self) -> Result<Vec<OpenTransaction>> {
        let mut command = Command::new("java");
        command.args(self.installed.java_arguments(TOOL_HEAP_MIB_MAX)).arg("org.apache.kafka.tools.TransactionsCommand");
        command.args(["--bootstrap-server", &self.bootstrap(), "list"]).current_dir(self.janitor.folder());
        let output = command.output().context("start java")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("the tool failed: {text}{}", String::from_utf8_lossy(&output.stderr));
        }
        text.lines().skip(1).filter(|line| !line.trim().is_empty()).map(OpenTransaction::parse).collect()
    }
}

/// A transactional id that a coordinator knows, with the phase it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer id.
    pub producer_id: i64,
    /// What the coordinator says, in its own words, such as `Ongoing`.
    pub phase: String,
}

impl OpenTransaction {
    /// A line such as `id 1 1000 Ongoing`.
    fn parse(line: &str) -> Result<OpenTransaction> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [transactional_id, _coordinator, producer_id, phase] = words[..] else { bail!("expected four words, found {line:?}") };
        Ok(OpenTransaction { transactional_id: transactional_id.into(), producer_id: producer_id.parse()?, phase: phase.into() })
    }
}
