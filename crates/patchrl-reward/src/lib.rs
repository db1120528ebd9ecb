//! reward
