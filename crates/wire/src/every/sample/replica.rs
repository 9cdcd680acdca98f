//! Sample values for messages between metaservers.

use crate::replica;

use super::{Sample, Source};

borrowed! {
    replica::Content<'static>: 4096,
}

structures! {
    replica::Caller { peer epoch callee_epoch }
    replica::Place<'static> { directory name }
    replica::Yielded<'static> { place object over }
    replica::Metafile<'static> { object version places attributes content }
    replica::hello::Args { peer epoch stored_epoch stored_stamp strict }
    replica::hello::Covered { object writes }
    replica::hello::Known<'static> { epoch known_epoch known_stamp recovers covered replaced }
    replica::fetch::Args { caller object known }
    replica::search::Args<'static> { caller place behind }
    replica::named::Args<'static> { caller place }
    replica::claim::Args<'static> { caller place object over }
    replica::stands::Args<'static> { caller place object claimant }
    replica::change::Wrote<'static> { offset data modified }
    replica::change::Args<'static> { caller object attributes clear_set_ids wrote }
    replica::place::Args<'static> { caller number object from to over }
    replica::r#move::Args { caller number object parent }
    replica::announce::Args<'static> { caller object version places left }
    replica::list::Args { caller directory behind count }
    replica::list::Entry<'static> { cookie name object }
    replica::list::Names<'static> { entries end }
    replica::evict::Args { caller object }
    replica::cover::Args { caller object writes lends reclaims given }
    replica::cover::Granted { serial writes term_ms }
    replica::uncover::Args { caller object serial }
    replica::load::Args { caller }
    replica::load::Load { busy_tenths connections }
    replica::begin::Args { caller directory change by }
    replica::end::Args { caller directory change done }
    replica::r#yield::Args<'static> { caller change yielded by }
    replica::replaced::Args<'static> { caller change yielded by version }
}

impl<Results: Sample> Sample for replica::Answer<Results> {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(9) {
            0 | 1 => Self::Done { stamp: Sample::sample(source), results: Sample::sample(source) },
            2 => Self::Epoch(Sample::sample(source)),
            3 => Self::Later,
            4 => Self::Gone,
            5 => Self::Exists,
            6 => Self::Full,
            7 => Self::Loop,
            _ => Self::Mode,
        }
    }
}
