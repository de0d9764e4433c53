//! Questions about the cluster: its brokers, topics and settings, and what this user may do.

use std::collections::BTreeMap;

use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{DescribeClusterRequest, DescribeConfigsRequest, MetadataRequest, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};
use staunch_types::Result;

use super::{Control, Target, refused};
use crate::settings::Address;

/// The protocol's number for the settings of a broker.
const BROKER_RESOURCE: i8 = 4;
/// The protocol's number for the settings of a topic.
const TOPIC_RESOURCE: i8 = 2;
/// The protocol's number for "not told".
const OPERATIONS_UNKNOWN: i32 = i32::MIN;

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Its id; another cluster behind the same name has another.
    pub id: String,
    /// Its living brokers.
    pub brokers: Vec<Broker>,
    /// What this user may do to the cluster.
    pub allowed: Allowed,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its number.
    pub node: i32,
    /// Where it listens for clients like us.
    pub address: Address,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id, as 32 hexadecimal digits; a topic made anew under the same name has another.
    pub id: String,
    /// Its partitions, by number.
    pub partitions: Vec<Partition>,
    /// What this user may do to it.
    pub allowed: Allowed,
}

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number.
    pub number: i32,
    /// The broker that leads it; none while there is no leader.
    pub leader: Option<i32>,
}

/// What a user may do to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowed(i32);

/// What can be allowed, by the protocol's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reading records or offsets.
    Read = 3,
    /// Writing records.
    Write = 4,
    /// Making topics.
    Create = 5,
    /// Asking about it.
    Describe = 8,
    /// Asking for its settings.
    DescribeConfigs = 10,
    /// Writing with a producer id.
    IdempotentWrite = 12,
    /// Transactions that outlive their producer.
    TwoPhaseCommit = 15,
}

impl Allowed {
    /// Whether it is allowed; `None` when the broker does not tell.
    #[must_use]
    pub fn to(self, operation: Operation) -> Option<bool> {
        (self.0 != OPERATIONS_UNKNOWN).then_some(self.0 & (1 << operation as i32) != 0)
    }
}

impl Control {
    /// The cluster as any of its brokers sees it.
    ///
    /// # Errors
    /// `Retry` when no broker answers, `Invalid` when it refuses us.
    pub fn cluster(&mut self) -> Result<Cluster> {
        let about = "of the cluster";
        let (code, cluster) = self.persist(DescribeClusterRequest::KEY, about, |control| {
            let (code, address, cluster) = control.cluster_once()?;
            Ok((code, address, (code, cluster)))
        })?;
        self.done(DescribeClusterRequest::KEY, about, code)?;
        Ok(cluster)
    }

    /// One attempt: the error code, who answered, and the answer.
    pub(super) fn cluster_once(&mut self) -> Result<(i16, Address, Cluster)> {
        let request = DescribeClusterRequest::default().with_include_cluster_authorized_operations(true).with_endpoint_type(1);
        let address = self.locate(&Target::Any)?;
        let answer = self.on(&address, |connection| connection.call(0..=1, &request))?;
        let broker = |b: DescribeClusterBroker| Broker {
            node: b.broker_id.0,
            address: Address { host: b.host.to_string(), port: u16::try_from(b.port).unwrap_or_default() },
        };
        let brokers: Vec<Broker> = answer.brokers.into_iter().map(broker).collect();
        self.brokers = brokers.iter().map(|broker| broker.address.clone()).collect();
        let cluster = Cluster { id: answer.cluster_id.to_string(), brokers, allowed: Allowed(answer.cluster_authorized_operations) };
        Ok((answer.error_code, address, cluster))
    }

    /// A topic; `None` when there is none of this name. Never makes one.
    ///
    /// # Errors
    /// `Retry` when no broker answers, `Invalid` when this user may not ask.
    pub fn topic(&mut self, name: &str) -> Result<Option<Topic>> {
        let wanted = MetadataRequestTopic::default().with_name(Some(TopicName(StrBytes::from_string(name.into()))));
        let request = MetadataRequest::default().with_topics(Some(vec![wanted])).with_allow_auto_topic_creation(false);
        let request = request.with_include_topic_authorized_operations(true);
        let about = format!("topic={name}");
        let answer = self.ask(&Target::Any, 10..=12, &request, &about, |answer| answer.topics.first().map_or(0, |t| t.error_code))?;
        let Some(topic) = answer.topics.first() else { return Ok(None) };
        if topic.error_code.err() == Some(ResponseError::UnknownTopicOrPartition) {
            return Ok(None);
        }
        self.done(MetadataRequest::KEY, &about, topic.error_code)?;
        let partition = |p: &kafka_protocol::messages::metadata_response::MetadataResponsePartition| Partition {
            number: p.partition_index,
            leader: (p.leader_id.0 >= 0).then_some(p.leader_id.0),
        };
        let mut partitions: Vec<Partition> = topic.partitions.iter().map(partition).collect();
        partitions.sort_by_key(|partition| partition.number);
        let id = format!("{:032x}", topic.topic_id.as_u128());
        Ok(Some(Topic { id, partitions, allowed: Allowed(topic.topic_authorized_operations) }))
    }

    /// Settings of a broker by name, as it runs with them. A name that it does not know is left out.
    ///
    /// # Errors
    /// `Retry` when the broker does not answer, `Invalid` when this user may not ask.
    pub fn broker_settings(&mut self, broker: &Broker, names: &[&str]) -> Result<BTreeMap<String, String>> {
        let about = format!("node={}", broker.node);
        self.configs(&Target::Broker(&broker.address), (BROKER_RESOURCE, &broker.node.to_string()), names, &about)
    }

    /// Settings of a topic by name, those that it has from its brokers included.
    ///
    /// # Errors
    /// As [`Control::broker_settings`].
    pub fn topic_settings(&mut self, topic: &str, names: &[&str]) -> Result<BTreeMap<String, String>> {
        self.configs(&Target::Any, (TOPIC_RESOURCE, topic), names, &format!("topic={topic}"))
    }

    fn configs(&mut self, target: &Target<'_>, of: (i8, &str), names: &[&str], about: &str) -> Result<BTreeMap<String, String>> {
        let keys = names.iter().map(|name| StrBytes::from_string((*name).into())).collect();
        let resource = DescribeConfigsResource::default().with_resource_type(of.0);
        let resource = resource.with_resource_name(StrBytes::from_string(of.1.into())).with_configuration_keys(Some(keys));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let answer = self.ask(target, 1..=4, &request, about, |answer| answer.results.first().map_or(0, |r| r.error_code))?;
        let code = answer.results.first().map_or(0, |result| result.error_code);
        self.done(DescribeConfigsRequest::KEY, about, code)?;
        let settings = answer.results.into_iter().flat_map(|result| result.configs);
        Ok(settings.filter_map(|setting| Some((setting.name.to_string(), setting.value?.to_string()))).collect())
    }

    /// An error unless the code says that all is well.
    pub(super) fn done(&self, key: i16, about: &str, code: i16) -> Result<()> {
        code.err().map_or(Ok(()), |code| Err(refused(key, about, code, &self.settings.bootstrap[0])))
    }
}
