//! Task sets on the Hugging Face hub: SWE-bench's by short names, any by `owner/name:split`.
//!
//! Owns which files of a data set are its rows. Fetching is the hub crate's.

use std::path::{Path, PathBuf};

use patchrl_hub::{Hub, Kind, Listing, Miss, Remote, Report};

/// A split of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSet {
    /// `owner/name`.
    pub repo: String,
    /// Its name; none takes `train`, or `test` where there is no `train`.
    pub split: Option<String>,
}

/// Short names, where they are, and which split.
const KNOWN: [(&str, &str, &str); 6] = [
    ("full", "SWE-bench/SWE-bench", "test"),
    ("lite", "SWE-bench/SWE-bench_Lite", "test"),
    ("lite-dev", "SWE-bench/SWE-bench_Lite", "dev"),
    ("verified", "SWE-bench/SWE-bench_Verified", "test"),
    ("multilingual", "SWE-bench/SWE-bench_Multilingual", "test"),
    ("swe-gym", "SWE-Gym/SWE-Gym", "train"),
];

impl DataSet {
    /// `lite`, `owner/name` or `owner/name:split`.
    pub fn named(name: &str) -> Option<Self> {
        if let Some((_, repo, split)) = KNOWN.iter().find(|(short, ..)| *short == name) {
            return Some(Self { repo: (*repo).to_owned(), split: Some((*split).to_owned()) });
        }
        let (repo, split) = match name.split_once(':') {
            Some((repo, split)) => (repo, Some(split)),
            None => (name, None),
        };
        // A file that is not there is a mistyped path, not a repository.
        let endings = [".jsonl", ".json", ".gz", ".zst", ".parquet"];
        if endings.iter().any(|ending| repo.ends_with(ending)) {
            return None;
        }
        let word =
            |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
        let fine = split.is_none_or(|split| !split.is_empty() && word(split) && split != "..");
        (patchrl_hub::is_repo(repo) && fine)
            .then(|| Self { repo: repo.to_owned(), split: split.map(str::to_owned) })
    }

    /// The short names.
    pub fn short_names() -> impl Iterator<Item = &'static str> {
        KNOWN.iter().map(|(short, ..)| *short)
    }

    /// The files of rows, fetched into `cache` if they are not there.
    pub fn files(
        &self,
        hub: &Hub<'_>,
        cache: &Path,
        report: &mut Report<'_>,
    ) -> Result<Vec<PathBuf>, Miss> {
        let split = self.split.as_deref().unwrap_or("default");
        let folder = patchrl_hub::folder_of(&cache.join("datasets"), &self.repo).join(split);
        if let Some(files) = patchrl_hub::whole(&folder) {
            return Ok(files);
        }
        let listing = hub.listing(Kind::Dataset, &self.repo, report)?;
        let files = self.choose(&listing).map_err(Miss::Absent)?;
        hub.fetch((Kind::Dataset, &self.repo), (&listing.revision, &files), &folder, report)?;
        patchrl_hub::whole(&folder)
            .ok_or_else(|| Miss::Absent(format!("`{}` was not fetched whole", self.repo)))
    }

    /// Files of one format that belong to the split.
    fn choose(&self, listing: &Listing) -> Result<Vec<Remote>, String> {
        let splits: &[&str] = match &self.split {
            Some(split) => &[split],
            None => &["train", "test"],
        };
        for split in splits {
            for format in [".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".json"] {
                let wanted = |file: &&Remote| {
                    file.name.strip_suffix(format).is_some_and(|stem| is_of(stem, split))
                };
                let files: Vec<Remote> = listing.files.iter().filter(wanted).cloned().collect();
                if !files.is_empty() {
                    return Ok(files);
                }
            }
        }
        let splits = splits.join("` or `");
        Err(format!("`{}` on the hub has no rows of a split `{splits}`", self.repo))
    }
}

/// `data/test-00000-of-00001`, `test`, `test/0000`: what the hub's own tools call a split's files.
fn is_of(stem: &str, split: &str) -> bool {
    let (folders, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let numbered = name.strip_prefix(split).is_some_and(|rest| rest.starts_with("-0"));
    name == split || numbered || folders.rsplit('/').next() == Some(split)
}

#[cfg(test)]
mod tests {
    use patchrl_hub::Expected;

    use super::*;

    fn chosen(split: Option<&str>, names: &[&str]) -> Result<Vec<String>, String> {
        let remote = |name: &&str| Remote { name: (*name).into(), expected: Expected::default() };
        let files = names.iter().map(remote).collect();
        let set = DataSet { repo: "o/n".into(), split: split.map(str::to_owned) };
        let files = set.choose(&Listing { revision: "a".into(), files })?;
        Ok(files.into_iter().map(|file| file.name).collect())
    }

    #[test]
    fn the_files_of_a_split_are_found() {
        let names = [
            "README.md",
            "data/dev-00000-of-00001.parquet",
            "data/test-00000-of-00002.parquet",
            "data/test-00001-of-00002.parquet",
            "test.jsonl",
            "data/tests-00000-of-00001.parquet",
        ];
        assert_eq!(chosen(Some("test"), &names).unwrap(), names[2..4]);
        assert_eq!(chosen(Some("dev"), &names).unwrap(), names[1..2]);
        assert_eq!(chosen(None, &names).unwrap(), names[2..4], "there is no train");
        assert_eq!(chosen(Some("test"), &["test/0000.jsonl.gz"]).unwrap(), ["test/0000.jsonl.gz"]);
        let fault = chosen(Some("train"), &names).unwrap_err();
        assert_eq!(fault, "`o/n` on the hub has no rows of a split `train`");
    }

    #[test]
    fn names_are_repositories_or_short() {
        let lite = DataSet::named("lite").unwrap();
        assert_eq!(
            (lite.repo.as_str(), lite.split.as_deref()),
            ("SWE-bench/SWE-bench_Lite", Some("test"))
        );
        assert_eq!(DataSet::named("a/b:dev").unwrap().split.as_deref(), Some("dev"));
        assert_eq!(DataSet::named("a/b").unwrap().split, None);
        for strange in
            ["a", "a/b:", "a/b:..", "a/../b", "a/b:x/y", "/etc/passwd", "a/b/c", "a/b.jsonl"]
        {
            assert_eq!(DataSet::named(strange), None, "{strange}");
        }
    }
}
