//! Small random checkpoints and an adapter as transformers and PEFT wrote them, with their logits.
//!
//! `tests/golden` is made by `parity/families.py WORK --golden FOLDER`.

use std::path::{Path, PathBuf};

use patchrl_model::Model;

/// As in `parity/families.py`.
const LIMIT: f64 = 1e-4;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut cases: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    cases.sort();
    cases
}

fn tokens(case: &Path) -> Vec<u32> {
    serde_json::from_slice(&fs_err::read(case.join("tokens.json")).unwrap()).unwrap()
}

/// Largest difference over the largest logit that `file` holds.
fn error(got: &[f32], file: &Path) -> f64 {
    let bytes = fs_err::read(file).unwrap();
    let (rows, rest) = bytes.as_chunks::<4>();
    let want: Vec<f32> = rows.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    assert_eq!((got.len(), rest.len()), (want.len(), 0));
    let most = want.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let gap = got.iter().zip(&want).fold(0.0_f32, |gap, (a, b)| gap.max((a - b).abs()));
    f64::from(gap / most)
}

#[test]
fn logits_are_those_of_transformers() {
    assert_eq!(cases().len(), 10);
    for case in cases() {
        let model = Model::load(&case.join("model")).unwrap();
        let logits = model.logits(&tokens(&case)).unwrap();
        let error = error(&logits, &case.join("logits.f32"));
        assert!(error < LIMIT, "{}: {error:e}", case.display());
        // What we write is what we read, whatever the file's precision and number of shards.
        let folder = tempfile::tempdir().unwrap();
        model.save(folder.path().join("again").as_path()).unwrap();
        let again = Model::load(&folder.path().join("again")).unwrap();
        assert_eq!(again.config, model.config);
        assert_eq!(again.params.data(), model.params.data());
    }
}

#[test]
fn adapters_of_peft_give_the_logits_of_peft() {
    let with_adapter: Vec<_> =
        cases().into_iter().filter(|case| case.join("adapter").is_dir()).collect();
    assert_eq!(with_adapter.len(), 2);
    for case in with_adapter {
        let model = Model::load(&case.join("model")).unwrap();
        let plain = model.logits(&tokens(&case)).unwrap();
        let adapted = model.load_adapter(&case.join("adapter")).unwrap();
        for logits in [adapted.logits(&tokens(&case)), adapted.merged().logits(&tokens(&case))] {
            let error = error(&logits.unwrap(), &case.join("adapter.f32"));
            assert!(error < LIMIT, "{}: {error:e}", case.display());
        }
        assert!(error(&plain, &case.join("adapter.f32")) > 0.1, "the adapter does something");
    }
}
