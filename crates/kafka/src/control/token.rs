//! The token: an offset committed into a private group inside of a transaction, which tells later whether that transaction was committed.
//!
//! Owns: reading it. Does not own: writing it, which librdkafka does within the transaction.

use kafka_protocol::ResponseError;
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{GroupId, OffsetFetchRequest, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};
use staunch_types::Result;

use super::{Control, CoordinatorKind, Target, refused};

/// Where a token lies: in a group, under a partition of an existing topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenPlace {
    /// The private group.
    pub group: String,
    /// The topic; the broker demands that it exists when the token is written.
    pub topic: String,
    /// The partition.
    pub partition: i32,
}

/// What a group answers about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenAnswer {
    /// It is there, as the last committed transaction left it.
    There(Token),
    /// There is none, or the group has forgotten it.
    Absent,
    /// A transaction that wrote it is undecided, or its markers are still under way.
    Unstable {
        /// What stands there until then.
        last: Option<Token>,
    },
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The offset: a number of ours.
    pub number: i64,
    /// The text beside it.
    pub text: String,
}

impl Control {
    /// The token at a place. Changes nothing.
    ///
    /// # Errors
    /// `Retry` when the group does not answer, `Invalid` when this user may not ask.
    pub fn token(&mut self, place: &TokenPlace) -> Result<TokenAnswer> {
        if let Stability::Stable(token) = self.offset(place, true)? {
            return Ok(token.map_or(TokenAnswer::Absent, TokenAnswer::There));
        }
        match self.offset(place, false)? {
            Stability::Stable(last) => Ok(TokenAnswer::Unstable { last }),
            Stability::Unstable => Ok(TokenAnswer::Unstable { last: None }),
        }
    }

    fn offset(&mut self, place: &TokenPlace, require_stable: bool) -> Result<Stability> {
        let topic = OffsetFetchRequestTopic::default().with_name(TopicName(StrBytes::from_string(place.topic.clone())));
        let topic = topic.with_partition_indexes(vec![place.partition]);
        let request = OffsetFetchRequest::default().with_group_id(GroupId(StrBytes::from_string(place.group.clone())));
        let request = request.with_topics(Some(vec![topic])).with_require_stable(require_stable);
        let about = format!("group={} topic={} partition={}", place.group, place.topic, place.partition);
        let target = Target::Coordinator(CoordinatorKind::Group, &place.group);
        let answer = self.ask(&target, 7..=7, &request, &about, |answer| {
            let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
            partitions.map(|partition| partition.error_code).find(|code| *code != 0).unwrap_or(answer.error_code)
        })?;
        let found = answer.topics.into_iter().flat_map(|topic| topic.partitions).next();
        let code = found.as_ref().map_or(answer.error_code, |found| found.error_code);
        match (code.err(), found) {
            (None, Some(found)) if found.committed_offset >= 0 => {
                let text = found.metadata.map(|text| text.to_string()).unwrap_or_default();
                Ok(Stability::Stable(Some(Token { number: found.committed_offset, text })))
            }
            // When the topic was deleted, the group's offsets went with it.
            (None | Some(ResponseError::UnknownTopicOrPartition), _) => Ok(Stability::Stable(None)),
            (Some(ResponseError::UnstableOffsetCommit), _) => Ok(Stability::Unstable),
            (Some(code), _) => Err(refused(OffsetFetchRequest::KEY, &about, code, &self.asked(CoordinatorKind::Group, &place.group))),
        }
    }
}

enum Stability {
    Stable(Option<Token>),
    Unstable,
}
