//! The narrow set of operations that the network is written against.
//!
//! One folder per kind of processor. Every operation gives the same bits for the
//! same inputs, whatever the number of threads: work is split by rows or heads,
//! and each sum has a fixed order.

pub(crate) mod cpu;
