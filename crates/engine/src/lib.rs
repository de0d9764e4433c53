//! staunch-engine
