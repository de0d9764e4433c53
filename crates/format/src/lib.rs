//! staunch-format
