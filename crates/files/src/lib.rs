//! staunch-files
