//! A journal that was torn, taken up again, or wanted by two.

use std::io::Write;
use std::path::Path;

use patchrl_telemetry::{Event, Mark, Telemetry, TelemetryError, read_journal, timeless};

use crate::run::{emit_all, events};

fn journal_of(dir: &Path) -> Vec<Event> {
    let records = read_journal(&dir.join("journal.jsonl")).unwrap();
    assert!(records.iter().all(|record| record.at.0 > 1_500_000_000_000));
    records.iter().map(|record| timeless(&record.event)).collect()
}

/// Events up to and with the checkpoint of `step`.
fn until(events: &[Event], step: u64) -> usize {
    let written =
        |event: &Event| matches!(event, Event::CheckpointWritten { step: s, .. } if *s == step);
    events.iter().position(written).unwrap() + 1
}

#[test]
fn a_resumed_journal_equals_an_uninterrupted_one() {
    let whole = events(8);
    let dir = tempfile::tempdir().unwrap();
    // Killed in the middle of step 7; the checkpoint is that of step 6.
    let cut = until(&whole, 6);
    emit_all(&Telemetry::open(dir.path()).unwrap(), &whole[..cut + 3]);
    tear(dir.path(), b"{\"at\":17,\"event\":\"rollout_en");

    let mark = Mark { phase: "tests", step: 6 };
    let (telemetry, kept) = Telemetry::resume(dir.path(), Some(mark)).unwrap();
    assert!(kept.found);
    assert_eq!((kept.records.len(), kept.dropped), (cut, 3));
    emit_all(&telemetry, &whole[cut..]);
    let expected: Vec<_> = whole.iter().map(timeless).collect();
    assert_eq!(journal_of(dir.path()), expected);
}

#[test]
fn phases_with_equal_step_numbers_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    emit_all(&Telemetry::open(dir.path()).unwrap(), &events(8));
    let (_, kept) = Telemetry::resume(dir.path(), Some(Mark { phase: "sft", step: 1 })).unwrap();
    assert!(matches!(&kept.records.last().unwrap().event, Event::SftStep(step) if step.step == 1));
    assert_eq!(journal_of(dir.path()).len(), kept.records.len());
}

#[test]
fn a_step_the_journal_never_saw_keeps_all_before_a_later_one() {
    let dir = tempfile::tempdir().unwrap();
    let whole = events(8);
    emit_all(&Telemetry::open(dir.path()).unwrap(), &whole);
    let mark = Mark { phase: "tests", step: 99 };
    let (_, kept) = Telemetry::resume(dir.path(), Some(mark)).unwrap();
    assert!(!kept.found);
    assert_eq!(kept.records.len(), whole.len());
}

#[test]
fn no_checkpoint_means_from_the_beginning() {
    let dir = tempfile::tempdir().unwrap();
    emit_all(&Telemetry::open(dir.path()).unwrap(), &events(4));
    let (telemetry, kept) = Telemetry::resume(dir.path(), None).unwrap();
    assert!(kept.records.is_empty() && kept.dropped > 0);
    emit_all(&telemetry, &events(4));
    assert_eq!(journal_of(dir.path()).len(), events(4).len());
}

#[test]
fn a_torn_last_line_is_left_out_and_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let warning = Event::Warning { message: "disk\nnearly full".into() };
    Telemetry::open(dir.path()).unwrap().emit(&warning).unwrap();
    tear(dir.path(), b"{\"at\":1,\"event\":\"warn\xff\xfe");
    assert_eq!(journal_of(dir.path()), std::slice::from_ref(&warning));
    Telemetry::open(dir.path()).unwrap().emit(&warning).unwrap();
    assert_eq!(journal_of(dir.path()), [warning.clone(), warning]);
}

#[test]
fn rubbish_inside_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    Telemetry::open(dir.path()).unwrap().emit(&Event::RunEnded { seconds: 1.0 }).unwrap();
    tear(dir.path(), b"rubbish\n");
    let error = Telemetry::open(dir.path()).unwrap_err();
    assert!(error.to_string().starts_with("line 2 of the journal"), "{error}");
    assert!(error.hint().is_some());
}

#[test]
fn a_second_writer_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = Telemetry::open(dir.path()).unwrap();
    assert!(matches!(Telemetry::open(dir.path()), Err(TelemetryError::Busy { .. })));
    drop(first);
    Telemetry::open(dir.path()).unwrap();
}

#[test]
fn lines_of_many_threads_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let telemetry = Telemetry::open(dir.path()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| emit_all(&telemetry, &events(6)));
        }
    });
    assert_eq!(journal_of(dir.path()).len(), 4 * events(6).len());
}

fn tear(dir: &Path, bytes: &[u8]) {
    let path = dir.join("journal.jsonl");
    let mut file = fs_err::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}
