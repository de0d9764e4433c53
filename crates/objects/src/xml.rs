//! The answers of the server that are XML.

use serde::Deserialize;

/// An error, as far as people and we need it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct ErrorBody {
    pub(crate) code: String,
    pub(crate) message: String,
}

/// A page of objects.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Objects {
    pub(crate) contents: Vec<Object>,
    pub(crate) common_prefixes: Vec<CommonPrefix>,
    pub(crate) next_continuation_token: Option<String>,
    pub(crate) is_truncated: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Object {
    pub(crate) key: String,
    pub(crate) size: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct CommonPrefix {
    pub(crate) prefix: String,
}

/// An upload that was begun.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Begun {
    pub(crate) upload_id: String,
}

/// A page of uploads that are not complete.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Uploads {
    #[serde(rename = "Upload")]
    pub(crate) uploads: Vec<Unfinished>,
    pub(crate) is_truncated: bool,
    pub(crate) next_key_marker: Option<String>,
    pub(crate) next_upload_id_marker: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Unfinished {
    pub(crate) key: String,
    pub(crate) upload_id: String,
    pub(crate) initiated: String,
}

/// # Errors
/// When it is not of the form.
pub(crate) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not UTF-8".to_owned())?;
    quick_xml::de::from_str(text).map_err(|error| format!("the answer cannot be read: {error}"))
}

/// The error in a body, if there is one. A completion may fail behind status 200.
pub(crate) fn error_in(body: &[u8]) -> Option<ErrorBody> {
    let text = std::str::from_utf8(body).ok()?;
    let root = text.split('<').map(str::trim_start).find(|tag| !tag.is_empty() && !tag.starts_with(['?', '!']))?;
    if !root.starts_with("Error") {
        return None;
    }
    quick_xml::de::from_str(text).ok()
}

/// What completes an upload.
pub(crate) fn completion(etags: &[String]) -> String {
    let mut text = String::from("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (at, etag) in etags.iter().enumerate() {
        let etag = etag.replace('&', "&amp;").replace('<', "&lt;");
        text.push_str(&format!("<Part><PartNumber>{}</PartNumber><ETag>{etag}</ETag></Part>", at + 1));
    }
    text.push_str("</CompleteMultipartUpload>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_objects_and_uploads_are_read_with_what_else_may_stand_there() {
        let page: Objects = parse(
            b"<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><IsTruncated>true</IsTruncated>\
              <Contents><Key>a&amp;b</Key><LastModified>x</LastModified><Size>12</Size></Contents><Contents><Key>c</Key><Size>0</Size></Contents>\
              <CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes><NextContinuationToken>t</NextContinuationToken></ListBucketResult>",
        )
        .expect("a page");
        assert_eq!((page.contents.len(), page.contents[0].key.as_str(), page.contents[0].size), (2, "a&b", 12));
        assert_eq!(
            (page.common_prefixes[0].prefix.as_str(), page.is_truncated, page.next_continuation_token.as_deref()),
            ("d/", true, Some("t"))
        );
        let empty: Uploads = parse(b"<ListMultipartUploadsResult><Bucket>b</Bucket></ListMultipartUploadsResult>").expect("a page");
        assert!(empty.uploads.is_empty() && !empty.is_truncated);
    }

    #[test]
    fn an_error_is_told_from_a_success() {
        let error =
            error_in(b"<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>m</Message><X>y</X></Error>").expect("an error");
        assert_eq!((error.code.as_str(), error.message.as_str()), ("SlowDown", "m"));
        assert!(error_in(b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>").is_none());
        assert!(error_in(b"").is_none() && error_in(b"<html>").is_none());
    }
}
