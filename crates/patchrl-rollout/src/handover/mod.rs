//! New weights on their way to a server.
