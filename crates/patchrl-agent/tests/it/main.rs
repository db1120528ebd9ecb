//! Agents through the front door, without a sandbox.

mod retokenization;
