//! Options from a file.
//!
//! Owns: the reading of TOML, with the line of everything that is wrong. Does not own: what the values mean.

use std::path::Path;

use staunch_types::{Error, Result};
use toml::de::{DeTable, DeValue};

use super::{Given, Key, refused};

/// Bytes of the largest file that is read.
const FILE_BYTES_MAX: usize = 1 << 20;

/// Reads a file of options.
///
/// # Errors
/// `Invalid` with file, line and key: a file that cannot be read, that is not TOML, a key that does not exist, a value that is not understood.
pub(super) fn read(path: &Path, given: &mut Given) -> Result<()> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        refused("J103", "the file of options cannot be read", &format!("file={file}"))
            .cause(error)
            .remedy("correct --config, or the rights of the file")
    })?;
    if text.len() > FILE_BYTES_MAX {
        let what = format!("the file of options has {} bytes; at most {FILE_BYTES_MAX} are read", text.len());
        return Err(refused("J103", what, &format!("file={file}")).remedy("see whether --config names the right file"));
    }
    take(&text, &file, given)
}

/// Takes the options of a text.
pub(super) fn take(text: &str, file: &str, given: &mut Given) -> Result<()> {
    let line_at = |offset: usize| text.as_bytes()[..offset.min(text.len())].iter().filter(|b| **b == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(span.start));
        refused("J104", "the file of options is not TOML", &format!("file={file} line={line}"))
            .cause(error.message())
            .remedy("write one option a line, such as: parallelism = 4")
    })?;
    for (name, value) in table.get_ref() {
        let place = format!("file={file} line={} key={}", line_at(name.span().start), name.get_ref());
        let Some(key) = Key::ALL.into_iter().find(|key| key.name() == name.get_ref().as_ref()) else {
            return Err(unknown(name.get_ref(), &place));
        };
        given.set(key, &values(value.get_ref(), &place)?, &place)?;
    }
    Ok(())
}

fn values(value: &DeValue<'_>, place: &str) -> Result<Vec<String>> {
    match value {
        DeValue::String(text) => Ok(vec![text.to_string()]),
        DeValue::Integer(number) => Ok(vec![number.to_string()]),
        DeValue::Array(all) => all
            .iter()
            .map(|one| one.get_ref())
            .map(|one| match one {
                DeValue::String(text) => Ok(text.to_string()),
                other => Err(shape(other, place)),
            })
            .collect(),
        other => Err(shape(other, place)),
    }
}

fn shape(value: &DeValue<'_>, place: &str) -> Error {
    let what = format!("expected a text, a number or a list of texts, found a value of type {}", value.type_str());
    refused("J105", what, place).remedy("write the value as on the command line, in quotes")
}

fn unknown(name: &str, place: &str) -> Error {
    let known = Key::ALL.map(Key::name).join(", ");
    refused("J105", format!("there is no option \"{name}\""), place).remedy(format!("correct the key; known are {known}"))
}
