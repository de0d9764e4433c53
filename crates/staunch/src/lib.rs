//! staunch
