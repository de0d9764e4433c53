//! Sessions: windows that grow and merge with each record.
