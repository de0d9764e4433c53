//! Which cell goes to which field, decided once per file.

use crate::shape::Shape;

/// How the cells of a record reach the fields of a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// By the names in the header; only the wanted columns are looked at.
    ByName {
        /// All columns.
        header: Vec<String>,
        /// The numbers of those that the record type knows.
        wanted: Vec<usize>,
    },
    /// By position.
    ByPosition {
        /// All columns, when there is a header.
        header: Vec<String>,
    },
}

/// What is wrong with a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// A wanted column is named twice; numbers from 0.
    Doubled { name: String, first: usize, second: usize },
}

impl Plan {
    /// A plan for a file without a header.
    pub(crate) fn without_header() -> Plan {
        Plan::ByPosition { header: Vec::new() }
    }

    /// A plan for a file with a header.
    pub(crate) fn with_header(header: Vec<String>, shape: Shape) -> Result<Plan, HeaderFault> {
        let wants = |name: &str| match shape {
            Shape::Struct(names) => names.contains(&name),
            Shape::Map => true,
            Shape::Sequence | Shape::Value => false,
        };
        let wanted: Vec<usize> = (0..header.len()).filter(|&column| wants(&header[column])).collect();
        for (n, &second) in wanted.iter().enumerate() {
            if let Some(&first) = wanted[..n].iter().find(|&&first| header[first] == header[second]) {
                return Err(HeaderFault::Doubled { name: header[second].clone(), first, second });
            }
        }
        Ok(match shape {
            Shape::Struct(_) | Shape::Map => Plan::ByName { header, wanted },
            Shape::Sequence | Shape::Value => Plan::ByPosition { header },
        })
    }

    /// The columns, when there is a header.
    pub(crate) fn header(&self) -> &[String] {
        match self {
            Plan::ByName { header, .. } | Plan::ByPosition { header } => header,
        }
    }
}
