//! Instances of all applications, by the names that clients look up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::rc::Rc;

use crate::eureka::read::{Action, Applications, EurekaEntry};
use crate::ignored::IgnoredInstances;
use crate::instance::{Instance, ReadError, Unusable};

/// Application and id of an instance.
type Key = (String, String);

/// Instances of all applications.
#[derive(Clone, Debug, Default)]
pub(crate) struct EurekaTable {
    entries: BTreeMap<Key, Rc<EurekaEntry>>,
    /// Instances by the names that clients look up, in upper case.
    by_name: BTreeMap<String, BTreeSet<Key>>,
    /// Number of instances without id or application.
    nameless: usize,
}

impl EurekaTable {
    /// Returns the table of a whole registry.
    ///
    /// # Errors
    /// It has instances, but none can be used.
    pub(crate) fn of(all: Applications) -> Result<Self, ReadError> {
        let count = all.entries.len() + all.unusable;
        let problem = all.entries.iter().find_map(|entry| entry.instance.as_ref().err().copied());
        let has_any = all.entries.iter().any(|entry| entry.instance.is_ok());
        if count > 0 && !has_any {
            return Err(ReadError::NoneUsable(count, problem.unwrap_or(Unusable::Shape)));
        }
        let mut table = Self::default();
        table.change(all);
        Ok(table)
    }

    /// Applies changes.
    pub(crate) fn change(&mut self, changes: Applications) {
        self.nameless = self.nameless.max(changes.unusable);
        for entry in changes.entries {
            let key = (entry.application.clone(), entry.id.clone());
            if let Some(before) = self.entries.remove(&key) {
                for name in before.names() {
                    if let Some(keys) = self.by_name.get_mut(name) {
                        keys.remove(&key);
                    }
                }
            }
            if entry.action == Action::Deleted {
                continue;
            }
            for name in entry.names() {
                self.by_name.entry(name.to_owned()).or_default().insert(key.clone());
            }
            self.entries.insert(key, Rc::new(entry));
        }
        self.by_name.retain(|_, keys| !keys.is_empty());
    }

    /// Returns the counts of instances by status, as servers write them: `DOWN_1_UP_2_`.
    pub(crate) fn hash(&self) -> String {
        let mut counts = BTreeMap::<&str, usize>::new();
        for entry in self.entries.values() {
            *counts.entry(&entry.status).or_default() += 1;
        }
        counts.iter().fold(String::new(), |mut text, (status, count)| {
            // Writing to a String cannot fail.
            let _ = write!(text, "{status}_{count}_");
            text
        })
    }

    /// Returns the names of the applications that have an instance with the status `UP`.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        let up = self.entries.values().filter(|entry| entry.status == "UP" && entry.instance.is_ok());
        up.map(|entry| entry.application.clone()).collect()
    }

    /// Returns the instances that cannot be used, by application. Those without one have the name `-`.
    pub(crate) fn ignored(&self) -> BTreeMap<String, IgnoredInstances> {
        let mut ignored: BTreeMap<String, Option<IgnoredInstances>> = BTreeMap::new();
        for entry in self.entries.values() {
            if let Err(reason) = entry.instance {
                let of_service = ignored.entry(entry.application.clone()).or_default();
                IgnoredInstances::add(of_service, &entry.application, &entry.id, reason);
            }
        }
        for _ in 0..self.nameless {
            IgnoredInstances::add(ignored.entry("-".to_owned()).or_default(), "-", "-", Unusable::Shape);
        }
        ignored.into_iter().filter_map(|(service, ignored)| Some((service, ignored?))).collect()
    }

    /// Returns the usable instances of the service `name`.
    pub(crate) fn instances(&self, name: &str, only_up: bool) -> Vec<Instance> {
        let keys = self.by_name.get(&name.to_uppercase()).into_iter().flatten();
        let entries = keys.filter_map(|key| self.entries.get(key));
        let used = entries.filter(|entry| !only_up || entry.status == "UP");
        used.filter_map(|entry| entry.instance.clone().ok()).collect()
    }
}
