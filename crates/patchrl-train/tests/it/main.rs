//! Tests of the training room through its front door.

mod derivative;
mod golden;
mod presets;
mod update;
