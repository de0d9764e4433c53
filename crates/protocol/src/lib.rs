//! staunch-protocol
