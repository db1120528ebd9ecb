//! Whose a container is, and removing those whose owner is dead.
//!
//! The owner stands in the container's labels: process, start time of that
//! process, and the place where its number means something. A container from
//! elsewhere (another machine or process namespace on the same engine) is left alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};

use tokio::time::sleep;

use super::{Docker, Engine, fault};
use crate::local::record::born;
use crate::{Reaped, SandboxError};

pub(super) const RUN: &str = "patchrl.run";
const OWNER: &str = "patchrl.owner";
const PLACE: &str = "patchrl.place";

/// How often to look for containers of the dead, and how long to wait before the next look.
const LOOKS: usize = 6;
const PAUSE: Duration = Duration::from_millis(200);

/// One process, for labels.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// `pid.start`: a number that is used again has another start.
    pub(super) id: String,
    place: Place,
}

/// Where a process number means something.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    machine: String,
    boot: String,
    namespace: String,
}

/// Whether the owner of a container still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Alive,
    Dead,
    /// Started elsewhere.
    Unknown,
}

impl Owner {
    /// This process.
    pub(super) fn this() -> Self {
        let pid = std::process::id();
        Self { id: format!("{pid}.{}", born(pid).unwrap_or(0)), place: Place::here() }
    }

    pub(super) fn labels(&self, run: &str) -> HashMap<String, String> {
        let Place { machine, boot, namespace } = &self.place;
        HashMap::from([
            (RUN.to_owned(), run.to_owned()),
            (OWNER.to_owned(), self.id.clone()),
            (PLACE.to_owned(), format!("{machine} {boot} {namespace}")),
        ])
    }
}

impl Place {
    fn here() -> Self {
        let read = |path: &str| {
            let text = fs_err::read_to_string(path).unwrap_or_default();
            text.split_whitespace().next().unwrap_or("-").to_owned()
        };
        let namespace = fs_err::read_link("/proc/self/ns/pid").ok();
        Self {
            machine: read("/etc/machine-id"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            namespace: namespace.map_or("-".into(), |link| link.display().to_string()),
        }
    }

    fn life(&self, labels: &HashMap<String, String>) -> Life {
        let word = |label: &str, at| labels.get(label)?.split(' ').nth(at);
        let (Some(machine), Some(boot), Some(namespace)) =
            (word(PLACE, 0), word(PLACE, 1), word(PLACE, 2))
        else {
            return Life::Unknown;
        };
        if boot != self.boot {
            // A machine that was started anew has none of its old processes.
            let same = machine == self.machine && machine != "-";
            return if same { Life::Dead } else { Life::Unknown };
        }
        if namespace != self.namespace {
            return Life::Unknown;
        }
        let owner = labels.get(OWNER).and_then(|id| id.split_once('.'));
        let Some((Ok(pid), Ok(start))) = owner.map(|(p, s)| (p.parse(), s.parse::<u64>())) else {
            return Life::Unknown;
        };
        if born(pid) == Some(start) { Life::Alive } else { Life::Dead }
    }
}

impl Docker {
    /// Remove containers of ours whose owner is dead, and add them to `reaped`.
    pub fn reap(&self, reaped: &mut Reaped) -> Result<(), SandboxError> {
        self.block_on(async {
            let mut seen = BTreeSet::new();
            let mut failed = BTreeMap::new();
            let mut living = 0;
            // An engine lists a container that it still makes, and knows it by name
            // only later: what its owner asked for last takes a second look.
            for _ in 0..LOOKS {
                let (dead, live): (Vec<_>, Vec<_>) =
                    ours(&self.engine).await?.into_iter().partition(|c| c.1 == Life::Dead);
                living = live.len();
                failed.clear();
                if dead.is_empty() {
                    break;
                }
                for (name, _) in dead {
                    let error = remove(&self.engine, &name).await.err();
                    failed.insert(
                        name.clone(),
                        error.map_or("still there".into(), |e| e.to_string()),
                    );
                    seen.insert(name);
                }
                sleep(PAUSE).await;
            }
            reaped.live += living;
            reaped.containers.extend(seen.into_iter().filter(|name| !failed.contains_key(name)));
            let failed = failed.into_iter().map(|(name, why)| format!("container {name}: {why}"));
            reaped.failed.extend(failed);
            Ok(())
        })
    }
}

async fn ours(engine: &Engine) -> Result<Vec<(String, Life)>, SandboxError> {
    let filters = HashMap::from([("label", vec![OWNER])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let found = engine.calls.list_containers(Some(options));
    let found = engine.call("a list of containers", found).await?;
    let name = |names: Option<Vec<String>>| Some(names?.first()?.trim_matches('/').to_owned());
    Ok(found
        .into_iter()
        .filter_map(|container| {
            let life = engine.owner.place.life(container.labels.as_ref()?);
            Some((name(container.names).or(container.id)?, life))
        })
        .collect())
}

/// Remove a container with everything in it. One that is not there is fine.
pub(super) async fn remove(engine: &Engine, name: &str) -> Result<(), SandboxError> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    let removed = async {
        match engine.calls.remove_container(name, Some(options)).await {
            // 409: somebody else is removing it.
            Err(e) if fault::is_status(&e, 404) || fault::is_status(&e, 409) => Ok(()),
            other => other,
        }
    };
    engine.call("removal of a container", removed).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_this_place_can_be_dead() {
        let owner = Owner::this();
        let here = Place::here();
        let with = |label: &str, text: String| {
            let mut labels = owner.labels("x");
            labels.insert(label.to_owned(), text);
            here.life(&labels)
        };
        assert_eq!(here.life(&owner.labels("x")), Life::Alive);
        assert_eq!(with(OWNER, format!("{}.7", std::process::id())), Life::Dead);
        assert_eq!(with(OWNER, "rubbish".into()), Life::Unknown);
        assert_eq!(with(PLACE, format!("m {} pid:[1]", here.boot)), Life::Unknown);
        assert_eq!(with(PLACE, "other boot pid:[1]".into()), Life::Unknown);
        assert_eq!(here.life(&HashMap::new()), Life::Unknown);
    }
}
