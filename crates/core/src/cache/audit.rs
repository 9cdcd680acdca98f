//! The audit of a cache.

use leasehold_base::units::Time;

use super::{Cache, ObjectKey};

impl<E: Clone> Cache<E> {
    /// Audits the whole state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        self.names.check();
        assert!(self.jobs.len() <= self.options.calls_max, "calls are bounded");
        let (mut bytes, mut unsaved_bytes) = (0, 0);
        for (key, object) in &self.objects {
            object.file.check(&self.options);
            let (all, unsaved) = object.file.bytes();
            assert_eq!(self.filled.contains(key), all > 0);
            assert_eq!(self.unsaved.contains_key(key), object.file.is_unsaved());
            let since = self.unsaved.get(key).filter(|_| object.file.background.is_none());
            let delayed = since.is_some_and(|since| self.delayed.contains(&(*since, *key)));
            assert_eq!(delayed, since.is_some(), "delayed data has a send time");
            (bytes, unsaved_bytes) = (bytes + all, unsaved_bytes + unsaved);
        }
        assert_eq!((bytes, unsaved_bytes), (self.bytes, self.unsaved_bytes));
        let is_unsaved = |(since, key): &(Time, ObjectKey)| self.unsaved.get(key) == Some(since);
        assert!(self.delayed.iter().all(is_unsaved));
    }
}
