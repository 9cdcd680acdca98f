//! What the kernel is to drop of the data of nodes.
//!
//! To drop a page it waits until that is not locked, as it is by each READ of it, and by a WRITE of a
//! part of it while the rest is not there. What is waited for there may itself wait for what another
//! node's data is dropped for; so there is a thread for each node that is being dropped, within
//! reason, and no request may wait for any.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::NodeId;
use crate::notify::{invalidate_attributes, invalidate_data};
use crate::tasks::Hub;

/// How many threads drop data at most.
const THREADS_MAX: usize = 64;

/// What is called when the kernel has dropped data.
pub(crate) type Done = Box<dyn FnOnce() + Send>;

/// Data that is to be dropped, and who waits for that.
#[derive(Default)]
struct Due {
    data: Vec<Range<u64>>,
    done: Vec<Done>,
}

/// All that is to be dropped.
#[derive(Default)]
pub(crate) struct Drops {
    state: Mutex<State>,
    /// There is something to do, or all is over.
    woken: Condvar,
}

#[derive(Default)]
struct State {
    /// What nobody has begun with.
    waiting: BTreeMap<NodeId, Due>,
    /// In which order; not those that are under way.
    order: VecDeque<NodeId>,
    /// Nodes whose data is being dropped.
    under_way: BTreeSet<NodeId>,
    threads: usize,
    /// How many of the threads have nothing to do.
    idle: usize,
    over: bool,
}

impl Hub {
    /// Has the kernel drop data of a node and ask for its attributes, and calls `done` when that is
    /// so; at once where all is over.
    pub(crate) fn drop_data(
        self: &Arc<Self>,
        node: NodeId,
        data: Vec<Range<u64>>,
        done: Option<Done>,
    ) {
        let mut state = self.drops.state();
        let is_under_way = state.under_way.contains(&node);
        let is_clear = data.is_empty() && !is_under_way && !state.waiting.contains_key(&node);
        if state.over || is_clear {
            drop(state);
            invalidate_attributes(self, node);
            return done.into_iter().for_each(|done| done());
        }
        let is_new = !state.waiting.contains_key(&node);
        let waiting = state.waiting.entry(node).or_default();
        waiting.data.extend(data);
        waiting.done.extend(done);
        if is_new && !is_under_way {
            state.order.push_back(node);
        }
        let is_short = state.order.len() > state.idle && state.threads < THREADS_MAX;
        if is_short && let Err(error) = self.start_thread(&mut state) {
            tracing::warn!(%error, "no thread more to take back what the kernel keeps");
        }
        drop(state);
        self.drops.woken.notify_one();
    }

    /// Begins to do so.
    pub(crate) fn start_dropping(self: &Arc<Self>) -> io::Result<()> {
        self.start_thread(&mut self.drops.state())
    }

    /// Starts a thread more. Nobody waits for its end: it may wait for a read that will not be answered
    /// any more.
    fn start_thread(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        let hub = Arc::clone(self);
        let name = "fuse-drop".to_owned();
        thread::Builder::new().name(name).spawn(move || hub.drop_what_waits())?;
        state.threads += 1;
        Ok(())
    }

    /// Has the kernel drop what there is to drop, until all is over.
    fn drop_what_waits(&self) {
        let mut state = self.drops.state();
        while !state.over {
            let Some(node) = state.order.pop_front() else {
                state.idle += 1;
                state = self.drops.woken.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            let dropped = state.waiting.remove(&node).unwrap_or_default();
            state.under_way.insert(node);
            drop(state);
            if dropped.data.is_empty() {
                invalidate_attributes(self, node);
            }
            for data in &dropped.data {
                invalidate_data(self, node, data);
            }
            dropped.done.into_iter().for_each(|done| done());
            state = self.drops.state();
            state.under_way.remove(&node);
            if state.waiting.contains_key(&node) {
                state.order.push_back(node);
            }
        }
    }
}

impl Drops {
    /// Nothing is to be dropped any more: the kernel is gone, or will be.
    pub(crate) fn finish(&self) {
        let mut state = self.state();
        state.over = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.woken.notify_all();
        waiting.into_values().flat_map(|dropped| dropped.done).for_each(|done| done());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No step with it panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
