//! The settings of a broker: few threads, small logs, short intervals.

use std::fmt::Write as _;
use std::path::Path;

use crate::Certificates;

/// What cluster to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of brokers: 1, or 3 with replication 3 and two in-sync replicas at least.
    pub brokers: u32,
    /// Further settings of every broker; they win over ours.
    pub settings: Vec<(String, String)>,
    /// Whether the processes should start quickly or run quickly.
    pub load: Load,
}

/// What a broker is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Tests, which want it to be there soon and to stay small.
    Light,
    /// Measurements: compiled as well as Java can, with a larger heap.
    Heavy,
}

impl Options {
    /// One broker.
    #[must_use]
    pub fn one() -> Options {
        Options { brokers: 1, settings: Vec::new(), load: Load::Light }
    }

    /// Three brokers, of which one may be lost.
    #[must_use]
    pub fn three() -> Options {
        Options { brokers: 3, settings: Vec::new(), load: Load::Light }
    }

    /// Brokers that are measured, or measured against.
    #[must_use]
    pub fn for_load(mut self) -> Options {
        self.load = Load::Heavy;
        self
    }

    /// With a further broker setting.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Options {
        self.settings.push((name.into(), value.into()));
        self
    }
}

/// The listeners of each broker, in the order of its ports. Users of SASL are `admin`, who may do everything, and `app`, who may do
/// nothing; the password is the name with `-secret`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// No encryption, no names: may do everything.
    Plain,
    /// TLS, and the client shows a certificate; `CN=client` may do everything.
    Tls,
    /// SASL without encryption: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.
    Sasl,
    /// SASL over TLS.
    SaslTls,
    /// Between brokers and controllers.
    Controller,
}

impl Listener {
    pub(crate) const ALL: [Listener; 5] = [Listener::Plain, Listener::Tls, Listener::Sasl, Listener::SaslTls, Listener::Controller];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Listener::Plain => "PLAINTEXT",
            Listener::Tls => "SSL",
            Listener::Sasl => "SASL_PLAINTEXT",
            Listener::SaslTls => "SASL_SSL",
            Listener::Controller => "CONTROLLER",
        }
    }

    pub(crate) fn index(self) -> usize {
        Listener::ALL.iter().position(|l| *l == self).expect("all listeners are listed")
    }
}

/// The properties file of one broker.
pub(crate) fn properties(options: &Options, node: u32, ports: &[Vec<u16>], folder: &Path, certificates: &Certificates) -> String {
    let own = &ports[node as usize - 1];
    let listeners: Vec<String> = Listener::ALL.iter().map(|l| format!("{}://127.0.0.1:{}", l.name(), own[l.index()])).collect();
    let voter = |(at, ports): (usize, &Vec<u16>)| format!("{}@127.0.0.1:{}", at + 1, ports[Listener::Controller.index()]);
    let voters: Vec<String> = ports.iter().enumerate().map(voter).collect();
    let mut text = String::new();
    let mut set = |name: &str, value: &str| writeln!(text, "{name}={value}").expect("a String takes all");
    set("process.roles", "broker,controller");
    set("node.id", &node.to_string());
    set("controller.quorum.voters", &voters.join(","));
    set("listeners", &listeners.join(","));
    set(
        "listener.security.protocol.map",
        "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
    );
    set("controller.listener.names", Listener::Controller.name());
    set("log.dirs", &folder.join("data").display().to_string());
    let (replicas, in_sync_min) = if options.brokers == 1 { ("1", "1") } else { ("3", "2") };
    for topic in ["offsets.topic", "transaction.state.log", "share.coordinator.state.topic"] {
        set(&format!("{topic}.replication.factor"), replicas);
        set(&format!("{topic}.num.partitions"), "4");
    }
    set("transaction.state.log.min.isr", in_sync_min);
    set("share.coordinator.state.topic.min.isr", in_sync_min);
    set("default.replication.factor", replicas);
    set("min.insync.replicas", in_sync_min);
    for (name, value) in SMALL {
        set(name, value);
    }
    security(&mut set, certificates);
    for (name, value) in &options.settings {
        set(name, value);
    }
    text
}

/// What makes a broker small and quick.
const SMALL: [(&str, &str); 19] = [
    ("num.network.threads", "1"),
    ("num.io.threads", "2"),
    ("background.threads", "1"),
    ("num.recovery.threads.per.data.dir", "1"),
    ("group.coordinator.threads", "1"),
    ("log.cleaner.enable", "false"),
    ("log.segment.bytes", "16777216"),
    ("log.index.size.max.bytes", "65536"),
    ("offsets.topic.segment.bytes", "1048576"),
    ("transaction.state.log.segment.bytes", "1048576"),
    ("auto.create.topics.enable", "false"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "100"),
    ("controlled.shutdown.enable", "false"),
    ("broker.heartbeat.interval.ms", "500"),
    ("broker.session.timeout.ms", "3000"),
    ("controller.quorum.election.timeout.ms", "500"),
    ("controller.quorum.fetch.timeout.ms", "1000"),
    ("replica.lag.time.max.ms", "3000"),
];

fn security(set: &mut impl FnMut(&str, &str), certificates: &Certificates) {
    set("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
    set("super.users", "User:ANONYMOUS;User:admin;User:CN=client");
    set("ssl.keystore.type", "PEM");
    set("ssl.keystore.location", &certificates.broker.display().to_string());
    set("ssl.truststore.type", "PEM");
    set("ssl.truststore.location", &certificates.authority.display().to_string());
    set("listener.name.ssl.ssl.client.auth", "required");
    set("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512");
    for listener in ["sasl_plaintext", "sasl_ssl"] {
        let login = "user_admin=\"admin-secret\" user_app=\"app-secret\";";
        set(
            &format!("listener.name.{listener}.plain.sasl.jaas.config"),
            &format!("org.apache.kafka.common.security.plain.PlainLoginModule required {login}"),
        );
        for mechanism in ["scram-sha-256", "scram-sha-512"] {
            set(
                &format!("listener.name.{listener}.{mechanism}.sasl.jaas.config"),
                "org.apache.kafka.common.security.scram.ScramLoginModule required;",
            );
        }
    }
}
