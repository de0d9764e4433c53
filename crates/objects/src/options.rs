//! What must be known to speak to a server.

use std::fmt;
use std::time::Duration;

use object_store::aws::AmazonS3ConfigKey;

/// How long one request may take, its answer included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);
const REGION: &str = "us-east-1";

/// Where a server is and who asks. What is set by a method wins over what variables say.
#[derive(Clone, Default)]
pub struct Options {
    endpoint: Option<String>,
    region: Option<String>,
    path_style: Option<bool>,
    timeout: Option<Duration>,
    keys: Option<Keys>,
    variables: Vec<(AmazonS3ConfigKey, String)>,
}

#[derive(Clone)]
pub(crate) struct Keys {
    pub(crate) id: String,
    pub(crate) secret: String,
    pub(crate) token: Option<String>,
}

impl Options {
    /// Nothing but defaults: Amazon's own servers, and credentials of the machine on which this runs.
    #[must_use]
    pub fn new() -> Options {
        Options::default()
    }

    /// Takes what the usual variables say; others are passed over. Known are `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
    /// `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_DEFAULT_REGION`, `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL`,
    /// `AWS_VIRTUAL_HOSTED_STYLE_REQUEST`, and those by which machines, containers and web identities get credentials.
    #[must_use]
    pub fn variables(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Options {
        for (name, value) in variables {
            if name.starts_with("AWS_")
                && !value.is_empty()
                && let Ok(key) = name.to_ascii_lowercase().parse()
            {
                self.variables.push((key, value));
            }
        }
        self
    }

    /// The address of the server, such as `http://127.0.0.1:9000`.
    #[must_use]
    pub fn endpoint(mut self, url: impl Into<String>) -> Options {
        self.endpoint = Some(url.into());
        self
    }

    /// The region; `us-east-1` unless said otherwise.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Options {
        self.region = Some(region.into());
        self
    }

    /// Whether the bucket stands in the path, and not in the name of the host. It does where an endpoint is given, unless said otherwise.
    #[must_use]
    pub fn path_style(mut self, on: bool) -> Options {
        self.path_style = Some(on);
        self
    }

    /// Who asks.
    #[must_use]
    pub fn credentials(mut self, key_id: impl Into<String>, secret: impl Into<String>, token: Option<String>) -> Options {
        self.keys = Some(Keys { id: key_id.into(), secret: secret.into(), token });
        self
    }

    /// How long one request may take, its answer included: 60 s unless said otherwise.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Options {
        self.timeout = Some(timeout);
        self
    }

    fn said(&self, wanted: AmazonS3ConfigKey) -> Option<&str> {
        self.variables.iter().find(|(key, _)| *key == wanted).map(|(_, value)| value.as_str())
    }

    /// `None` for Amazon's own.
    pub(crate) fn server(&self) -> Option<&str> {
        let said = || self.said(AmazonS3ConfigKey::S3Endpoint).or_else(|| self.said(AmazonS3ConfigKey::Endpoint));
        self.endpoint.as_deref().or_else(said).map(|url| url.trim_end_matches('/'))
    }

    pub(crate) fn place(&self) -> &str {
        let said = || self.said(AmazonS3ConfigKey::Region).or_else(|| self.said(AmazonS3ConfigKey::DefaultRegion));
        self.region.as_deref().or_else(said).unwrap_or(REGION)
    }

    /// `None` when nobody said.
    pub(crate) fn bucket_in_path(&self) -> Option<bool> {
        let said = || self.said(AmazonS3ConfigKey::VirtualHostedStyleRequest).map(|text| !matches!(text, "true" | "1" | "yes" | "on"));
        self.path_style.or_else(said)
    }

    pub(crate) fn time_max(&self) -> Duration {
        self.timeout.unwrap_or(REQUEST_TIME_MAX)
    }

    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }

    /// What else was said, for credentials.
    pub(crate) fn said_all(&self) -> &[(AmazonS3ConfigKey, String)] {
        &self.variables
    }
}

/// Without secrets.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Options");
        shown.field("endpoint", &self.server()).field("region", &self.place()).field("path_style", &self.bucket_in_path());
        shown.field("key_id", &self.keys.as_ref().map(|keys| &keys.id)).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> Options {
        Options::new().variables(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn the_variable_of_s3_wins_over_that_of_all_services_and_a_method_over_both() {
        let both = variables(&[("AWS_ENDPOINT_URL", "http://all/"), ("AWS_ENDPOINT_URL_S3", "http://s3/"), ("AWS_REGION", "eu-west-1")]);
        assert_eq!((both.server(), both.place()), (Some("http://s3"), "eu-west-1"));
        assert_eq!(variables(&[("AWS_ENDPOINT_URL", "http://all")]).server(), Some("http://all"));
        assert_eq!(both.endpoint("http://said").server(), Some("http://said"));
        assert_eq!(variables(&[("AWS_DEFAULT_REGION", "eu-north-1"), ("AWS_REGION", "")]).place(), "eu-north-1");
    }

    #[test]
    fn no_secret_is_shown() {
        let options = variables(&[("AWS_SECRET_ACCESS_KEY", "hidden-1"), ("AWS_SESSION_TOKEN", "hidden-2")]);
        let shown = format!("{:?}", options.credentials("id", "hidden-3", Some("hidden-4".into())));
        assert!(shown.contains("id") && !shown.contains("hidden"), "{shown}");
    }
}
