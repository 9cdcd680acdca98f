//! The conformance suite of stores.
