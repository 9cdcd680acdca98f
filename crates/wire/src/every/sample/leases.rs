//! Sample values for the programs with leases.

use crate::lease::{self, callback};
use crate::list::List;
use crate::{nfs3, nqnfs};

use super::{Sample, Source};

borrowed! {
    lease::ClientName<'static>: 255,
}

listed! {
    lease::Kind,
    lease::Open,
    lease::leases::Progress,
    nqnfs::Kind,
}

structures! {
    lease::Caller { client instance epoch }
    lease::Terms { kind term_ms opportune space }
    lease::Grant { kind cachable term_ms serial modrev space }
    lease::Ask { place terms }
    lease::Granted { place grant }
    lease::Change { place before after }
    lease::Base { serial modrev }
    lease::Head { caller asks base }
    lease::append::Data { file stability data }
    lease::append::Appended { offset written }
    lease::hello::Args<'static> { client instance name }
    lease::hello::Welcome {
        epoch recovering default_term_ms longest_term_ms write_slack_ms drift_ppm leases_names
    }
    lease::layout::Wanted { file kind }
    lease::layout::Object { host port object verifier }
    lease::layout::Layout { unit owner verifier objects }
    lease::objects::Wanted { file kind }
    lease::objects::Layout { unit user group verifier objects }
    lease::leases::Wanted { object terms reclaim }
    lease::leases::Returned { object serial open }
    lease::leases::Args { caller wanted returned progress }
    lease::leases::Held { place grant attributes }
    lease::leases::AllHeld { held }
    lease::write::Merged { attributes write }
    callback::evict::Lease { object serial }
    callback::evict::Args { epoch leases }
    callback::report::Args { epoch lease }
    callback::report::Set { mode accessed }
    callback::report::Now { size modified changed set }

    nqnfs::Ask { kind seconds }
    nqnfs::Terms { cachable seconds modrev }
    nqnfs::Grant { kind terms }
    nqnfs::getlease::Wanted { object kind seconds }
    nqnfs::getlease::Done { terms attributes }
}

impl<Args: Sample> Sample for lease::Call<Args> {
    fn sample(source: &mut Source<'_>) -> Self {
        Self { head: Sample::sample(source), args: Args::sample(source) }
    }
}

impl<Results: Sample> Sample for lease::Answer<Results> {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(6) {
            0 => Self::Done(lease::Done {
                granted: List::sample(source),
                changes: List::sample(source),
                results: Results::sample(source),
            }),
            1 => Self::Epoch(Sample::sample(source)),
            2 => Self::Instance(Sample::sample(source)),
            3 => Self::Unknown,
            4 => Self::Late(Sample::sample(source)),
            _ => Self::Later,
        }
    }
}

impl<Args: Sample> Sample for nqnfs::Call<Args> {
    fn sample(source: &mut Source<'_>) -> Self {
        Self { ask: Sample::sample(source), args: Args::sample(source) }
    }
}

impl Sample for nqnfs::Status {
    fn sample(source: &mut Source<'_>) -> Self {
        match source.below(3) {
            0 => Self::Nfs(nfs3::Status::sample(source)),
            1 => Self::Expired,
            _ => Self::TryLater,
        }
    }
}

impl<Done: Sample, Failed: Sample> Sample for nqnfs::Reply<Done, Failed> {
    fn sample(source: &mut Source<'_>) -> Self {
        if bool::sample(source) {
            return Self::Done(Sample::sample(source), Done::sample(source));
        }
        Self::Failed(Sample::sample(source), Failed::sample(source))
    }
}
