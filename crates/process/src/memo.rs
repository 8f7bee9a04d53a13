//! Caches of a load's results with their inputs. The next load reuses a result if its inputs are equal.

use std::sync::Arc;

use crate::hash_maps::{HashMap, HashSet};
use crate::parallel::in_parallel;
use crate::progress;

/// Caches the last result of a computation, with its inputs.
#[derive(Debug)]
pub struct Memo<I, O>(Option<(I, O)>);

impl<I, O> Default for Memo<I, O> {
    fn default() -> Self {
        Self(None)
    }
}

impl<I: PartialEq, O: Clone> Memo<I, O> {
    /// Returns the last result if it was computed from equal inputs. Otherwise computes and stores a new one.
    pub fn get(&mut self, inputs: I, compute: impl FnOnce(&I) -> O) -> O {
        if let Some((known, output)) = &self.0
            && *known == inputs
        {
            return output.clone();
        }
        let output = compute(&inputs);
        self.0 = Some((inputs, output.clone()));
        output
    }
}

/// Caches the last result of a computation for each key, with its inputs.
#[derive(Debug)]
pub struct MemoMap<I, O>(HashMap<String, (I, O)>);

impl<I, O> Default for MemoMap<I, O> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<I: PartialEq + Send + Sync, O: Clone + Send + Sync> MemoMap<I, O> {
    /// The results for all items, in their order. Counts them as pages for [`progress`]. Reuses a known
    /// result if its inputs are equal, and computes the others in parallel. `inputs` and `compute` receive
    /// the last result for the item's key; `inputs` also receives the inputs of that result.
    ///
    /// Keeps the results. An error removes the last result for its key. Of items with the same key, keeps the
    /// result of the last one that was computed.
    pub fn get_all<T: Sync, E: Send>(
        &mut self,
        items: &[T],
        key: impl Fn(&T) -> &str + Sync,
        inputs: impl Fn(&T, Option<&(I, O)>) -> I,
        compute: impl Fn(&T, &I, Option<&O>) -> Result<O, E> + Sync,
    ) -> Vec<Result<O, E>> {
        progress::begin("pages", items.len() as u64);
        let mut outputs = Vec::with_capacity(items.len());
        let mut new = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let last = self.0.get_mut(key(item));
            let inputs = inputs(item, last.as_deref());
            outputs.push(match last {
                Some(last) if last.0 == inputs => {
                    progress::advance(1);
                    last.0 = inputs;
                    Some(Ok(last.1.clone()))
                }
                _ => {
                    new.push((at, inputs));
                    None
                }
            });
        }
        let computed = in_parallel(&new, |(at, inputs)| {
            progress::advance(1);
            let item = &items[*at];
            compute(item, inputs, self.0.get(key(item)).map(|(_, output)| output))
        });
        for ((at, inputs), output) in new.into_iter().zip(computed) {
            let key = key(&items[at]);
            match &output {
                Ok(output) => drop(self.0.insert(key.to_owned(), (inputs, output.clone()))),
                Err(_) => drop(self.0.remove(key)),
            }
            outputs[at] = Some(output);
        }
        outputs.into_iter().flatten().collect()
    }

    /// Forgets the results for all other keys, unless there are at most as many results as keys: then a few
    /// stale results may stay.
    pub fn keep_only<'a>(&mut self, keys: impl Iterator<Item = &'a str>) {
        let keys: HashSet<&str> = keys.collect();
        if self.0.len() > keys.len() {
            self.0.retain(|key, _| keys.contains(key.as_str()));
        }
    }

    /// The last result for the key, without comparing its inputs.
    pub fn get(&self, key: &str) -> Option<&O> {
        self.0.get(key).map(|(_, output)| output)
    }

    /// The inputs and the last result for the key, to be changed in place.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut (I, O)> {
        self.0.get_mut(key)
    }

    /// The results with their inputs, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = &(I, O)> {
        self.0.values()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A shared value that equals only its clones: compares pointers, because comparing values takes too long.
#[derive(Debug)]
pub struct ByPointer<T>(pub Arc<T>);

impl<T> Clone for ByPointer<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> PartialEq for ByPointer<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A shared value that equals its clones, without a comparison, and equal values.
#[derive(Debug)]
pub struct ByValue<T>(pub Arc<T>);

impl<T: PartialEq> PartialEq for ByValue<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}
