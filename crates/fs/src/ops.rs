//! One file for each operation.
