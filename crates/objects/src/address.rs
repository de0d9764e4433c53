//! Addresses such as `s3://bucket/prefix`, and the URLs of what lies there.

use std::fmt::Write;

use staunch_types::{Error, ErrorKind, Result};

use crate::Options;

/// A bucket and what all keys begin with.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) bucket: String,
    /// Empty, or ends in `/`.
    pub(crate) prefix: String,
    /// The bucket's URL, without `/` at the end.
    url: String,
    /// The server, for people.
    pub(crate) server: String,
}

impl Address {
    /// # Errors
    /// `Invalid` when it names no bucket.
    pub(crate) fn parse(text: &str, options: &Options) -> Result<Address> {
        let wrong = |what: &str| {
            Error::new(ErrorKind::Invalid, "C401", format!("an address of S3 {what}: expected s3://BUCKET/PREFIX, found \"{text}\""))
                .data("nothing was started")
                .remedy("correct the address")
        };
        let rest = text.strip_prefix("s3://").or_else(|| text.strip_prefix("s3a://")).ok_or_else(|| wrong("begins with s3://"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || !bucket.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
            return Err(wrong("names a bucket"));
        }
        let prefix = prefix.trim_matches('/');
        if prefix.split('/').any(|part| matches!(part, "." | "..")) || (prefix.contains("//")) {
            return Err(wrong("has no empty parts, and none of dots"));
        }
        // A name with dots is in no certificate of Amazon's hosts.
        let in_path = options.bucket_in_path().unwrap_or(options.server().is_some() || bucket.contains('.'));
        let server = options.server().map_or_else(|| format!("https://s3.{}.amazonaws.com", options.place()), str::to_owned);
        let Some((scheme, host)) =
            server.split_once("://").filter(|(scheme, host)| matches!(*scheme, "http" | "https") && !host.is_empty())
        else {
            return Err(Error::new(ErrorKind::Invalid, "C402", format!("the endpoint of S3 is no URL: \"{server}\""))
                .data("nothing was started")
                .remedy("give AWS_ENDPOINT_URL as in http://127.0.0.1:9000, or leave it out for Amazon's own servers"));
        };
        let url = if in_path { format!("{server}/{bucket}") } else { format!("{scheme}://{bucket}.{host}") };
        let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        Ok(Address { bucket: bucket.to_owned(), prefix, url, server })
    }

    /// The URL of a key, or of the bucket, with what is asked.
    pub(crate) fn url(&self, key: Option<&str>, query: &[(&str, &str)]) -> String {
        let mut url = format!("{}/", self.url);
        encode(key.unwrap_or_default(), true, &mut url);
        for (at, (name, value)) in query.iter().enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            encode(name, false, &mut url);
            url.push('=');
            encode(value, false, &mut url);
        }
        url
    }

    /// For people.
    pub(crate) fn text(&self, path: &str) -> String {
        format!("s3://{}/{}{path}", self.bucket, self.prefix)
    }
}

/// As the signature wants it: all but unreserved characters.
fn encode(text: &str, slashes: bool, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') || (slashes && byte == b'/') {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(address: &str, options: &Options) -> String {
        let address = Address::parse(address, options).expect("an address");
        address.url(Some(&format!("{}a b", address.prefix)), &[("uploads", ""), ("prefix", "x/y")])
    }

    #[test]
    fn the_bucket_stands_in_the_host_at_amazon_and_in_the_path_elsewhere() {
        let amazon = Options::new().region("eu-west-1");
        assert_eq!(url("s3://b/p/q/", &amazon), "https://b.s3.eu-west-1.amazonaws.com/p/q/a%20b?uploads=&prefix=x%2Fy");
        assert_eq!(url("s3://b.c", &amazon), "https://s3.eu-west-1.amazonaws.com/b.c/a%20b?uploads=&prefix=x%2Fy");
        assert_eq!(url("s3a://b/p", &Options::new().endpoint("http://h:1/")), "http://h:1/b/p/a%20b?uploads=&prefix=x%2Fy");
        assert_eq!(url("s3://b/p", &Options::new().endpoint("http://h:1").path_style(false)), "http://b.h:1/p/a%20b?uploads=&prefix=x%2Fy");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for wrong in ["s3://", "s3:///p", "gs://b", "s3://b/../p", "s3://b/a//b", "s3://b?x/p"] {
            assert_eq!(Address::parse(wrong, &Options::new()).map(|_| ()).map_err(|e| e.code().to_owned()), Err("C401".into()), "{wrong}");
        }
        let error = Address::parse("s3://b", &Options::new().endpoint("127.0.0.1:9000")).expect_err("no URL");
        assert_eq!(error.code(), "C402");
    }
}
