//! The harness's report of a run: `MODEL.RUN.json`.

use std::collections::{BTreeMap, BTreeSet};

use patchrl_reward::harness::{Dialect, Infra, Report, Tier};
use serde_json::{Map, Value, json};

use super::Prediction;

/// Ids by how they ended, from which `schema_version` 2 is written.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    total: usize,
    submitted: BTreeSet<String>,
    incomplete: BTreeSet<String>,
    empty_patch: BTreeSet<String>,
    completed: BTreeSet<String>,
    resolved: BTreeSet<String>,
    unresolved: BTreeSet<String>,
    error: BTreeSet<String>,
    environment: BTreeSet<String>,
    ambiguous: BTreeSet<String>,
    reasons: BTreeMap<String, String>,
}

impl RunReport {
    /// A report on these instances and predictions. What has a patch counts as an error
    /// until it is [added](Self::add).
    pub fn new<'i>(instances: impl Iterator<Item = &'i str>, predictions: &[Prediction]) -> Self {
        let mut report = Self::default();
        let by_id: BTreeMap<&str, &Prediction> =
            predictions.iter().map(|it| (it.instance_id.as_str(), it)).collect();
        report.submitted = by_id.keys().map(|id| (*id).to_owned()).collect();
        for id in instances {
            report.total += 1;
            let ids = match by_id.get(id) {
                None => &mut report.incomplete,
                Some(prediction) if prediction.has_patch() => &mut report.error,
                Some(_) => &mut report.empty_patch,
            };
            ids.insert(id.to_owned());
        }
        report
    }

    /// Whether a verdict on the instance would count: it has a patch, and none yet.
    pub fn wants(&self, id: &str) -> bool {
        self.error.contains(id)
    }

    /// The verdict on an instance.
    pub fn add(&mut self, id: &str, report: &Report) {
        if self.error.remove(id) {
            self.completed.insert(id.to_owned());
            let ids = if report.resolved { &mut self.resolved } else { &mut self.unresolved };
            ids.insert(id.to_owned());
        }
    }

    /// What the logs of an instance that is not resolved tell of the environment.
    pub fn add_infra(&mut self, id: &str, infra: Infra) {
        if self.resolved.contains(id) {
            return;
        }
        let ids = match infra.tier {
            Tier::Environment => &mut self.environment,
            Tier::Ambiguous => &mut self.ambiguous,
        };
        ids.insert(id.to_owned());
        self.reasons.insert(id.to_owned(), infra.reason.to_owned());
    }

    /// Ids of resolved instances.
    pub fn resolved(&self) -> &BTreeSet<String> {
        &self.resolved
    }

    /// Instances, and those with a prediction, a verdict, no verdict for their patch.
    pub fn counts(&self) -> [usize; 4] {
        [self.total, self.submitted.len(), self.completed.len(), self.error.len()]
    }

    /// The fields in the order in which the harness writes them.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        let v5 = dialect == Dialect::V5;
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        put("total_instances", json!(self.total));
        put("submitted_instances", json!(self.submitted.len()));
        put("completed_instances", json!(self.completed.len()));
        put("resolved_instances", json!(self.resolved.len()));
        put("unresolved_instances", json!(self.unresolved.len()));
        if v5 {
            put("infra_failure_instances", json!(self.environment.len()));
            put("ambiguous_failure_instances", json!(self.ambiguous.len()));
        }
        put("empty_patch_instances", json!(self.empty_patch.len()));
        put("error_instances", json!(self.error.len()));
        put("completed_ids", json!(self.completed));
        put("incomplete_ids", json!(self.incomplete));
        put("empty_patch_ids", json!(self.empty_patch));
        put("submitted_ids", json!(self.submitted));
        put("resolved_ids", json!(self.resolved));
        put("unresolved_ids", json!(self.unresolved));
        if v5 {
            put("infra_failure_ids", json!(self.environment));
            put("ambiguous_failure_ids", json!(self.ambiguous));
            put("failure_reasons", json!(self.reasons));
        }
        put("error_ids", json!(self.error));
        put("schema_version", json!(2));
        Value::Object(fields)
    }
}
