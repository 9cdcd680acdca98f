//! The words of the dialogues.
//!
//! A client is written `EPOCH.NUMBER`, and a session `EPOCH.NUMBER.SESSION`. The defaults are
//! connection 1, principal 0, incarnation 1, digest 0, three operations and 200 bytes.
//!
//! Requests: `exchange OWNER [v N] [p N] [update] [flags N] [host N]`, `create CLIENT seq N
//! [conn N] [p N] [back] [slots N] [ops N] [bytes N] [cached N] [back-ops N] [back-slots N]`,
//! `seq SESSION slot N
//! seq N [high N] [keep] [conn N] [p N] [digest N] [ops N] [bytes N]`, `done SESSION slot N seq N
//! REPLY`, `bind SESSION conn N fore|back|fore-or-both|back-or-both`, `control SESSION`, `destroy
//! SESSION conn N`, `destroy-client CLIENT [via CLIENT] [p N]`, `complete CLIENT [one-fs]`.
//!
//! Events: `answered SESSION slot N seq N done [target N]|delay|late|misordered|garbled`, `callback
//! CLIENT N [of SESSION slot N seq N]`, `conflict CLIENT`, `lost N`, `end-grace`, `forget OWNER`,
//! `freed CLIENT CAUSE N`, `state CLIENT yes|no`, `limit SESSION slot N`, `not-persisted N`,
//! `persisted N`, `pressure`, `revoke CLIENT`, `revoked CLIENT CAUSE N`, `tick`.
//!
//! Questions: `may CLIENT`, `path CLIENT`, `missing`, `wake`, `memory`, `clients`. `restart`
//! starts the next epoch with the records on stable storage, and `records` prints them.

use super::*;
use crate::dialogue::value;

/// A server and its stable storage.
pub(super) struct Talk {
    sessions: Sessions,
    epoch: u32,
    /// The writes that have not ended.
    writes: BTreeMap<Ticket, (Owner, Record)>,
    records: BTreeMap<Owner, Record>,
    running: BTreeSet<Request>,
}

impl Talk {
    pub(super) fn new() -> Self {
        let sessions = start(Time::ZERO, LIMITS, 1, BTreeMap::new());
        let (writes, records, running) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { sessions, epoch: 1, writes, records, running }
    }

    pub(super) fn say(&mut self, now: Time, words: &[&str]) -> Vec<String> {
        let mut effects = Vec::new();
        let mut lines: Vec<String> = match self.ask(now, words) {
            Some(lines) => return lines,
            None => self.request(now, words, &mut effects).into_iter().collect(),
        };
        self.sessions.check();
        for effect in &effects {
            if let Effect::Remember { owner, record, ticket } = effect {
                self.writes.insert(*ticket, (owner.clone(), record.clone()));
            } else if let Effect::Forget(owner) = effect {
                self.records.remove(owner);
            }
        }
        lines.extend(effects.iter().map(told));
        lines
    }

    /// Answers a question, which changes nothing.
    fn ask(&mut self, now: Time, words: &[&str]) -> Option<Vec<String>> {
        let lines = match words[0] {
            "may" => {
                let client = client(words[1]);
                let (grant, reclaim) =
                    (self.sessions.may_grant(client), self.sessions.may_reclaim(client));
                vec![format!("grant {}, reclaim {}", result(grant), result(reclaim))]
            }
            "path" => vec![self.sessions.has_callback_path(client(words[1])).to_string()],
            "missing" => {
                let names = self.sessions.missing().map(name).collect::<Vec<_>>().join(" ");
                vec![format!("grace {} missing [{names}]", self.sessions.in_grace())]
            }
            "wake" => vec![format!("{:?}", self.sessions.next_wake())],
            "clients" => self.clients(),
            "memory" => vec![format!("{} bytes", self.sessions.reply_bytes())],
            "records" => {
                self.records.iter().map(|(owner, record)| on_disk(owner, record)).collect()
            }
            "restart" => {
                self.epoch += 1;
                self.writes.clear();
                self.running.clear();
                self.sessions = start(now, LIMITS, self.epoch, self.records.clone());
                Vec::new()
            }
            _ => return None,
        };
        Some(lines)
    }

    /// Prints the view of an administrator.
    fn clients(&self) -> Vec<String> {
        let view = |one: ClientView<'_>| {
            format!(
                "{} {} at {}{} sessions {} connections {} busy {} renewed {:?}{}",
                told_client(one.id),
                name(one.owner),
                one.address,
                if one.is_confirmed { "" } else { " unconfirmed" },
                one.sessions,
                one.connections,
                one.busy_slots,
                one.renewed,
                one.expired.map_or_else(String::new, |since| format!(" expired {since:?}")),
            )
        };
        let Totals { clients, courteous, sessions, busy_slots } = self.sessions.totals();
        let totals = format!(
            "{clients} clients, {courteous} expired, {sessions} sessions, {busy_slots} busy"
        );
        self.sessions.views().map(view).chain([totals]).collect()
    }

    pub(super) fn next_wake(&self) -> Option<Time> {
        self.sessions.next_wake()
    }

    fn request(&mut self, now: Time, words: &[&str], effects: &mut Vec<Effect>) -> Option<String> {
        let sessions = &mut self.sessions;
        let principal = Principal::System(value(words, "p").unwrap_or(0));
        let connection = connection_id(value(words, "conn").unwrap_or(1));
        Some(match words[0] {
            "exchange" => {
                let mut call = exchange(words[1], value(words, "v").unwrap_or(1));
                call.principal = principal;
                call.flags = ExchangeFlags(value(words, "flags").unwrap_or(0));
                if let Some(number) = value(words, "host") {
                    call.address = host(0, number);
                }
                if words.contains(&"update") {
                    call.flags = call.flags.with(ExchangeFlags::UPDATE);
                }
                exchanged(sessions.exchange_id(now, &call, effects))
            }
            "create" => created(sessions.create_session(now, &creation(words), effects)),
            "seq" => {
                let result = sessions.sequence(now, &request(words), effects);
                if let Ok(Admitted::Run { results, .. }) = &result {
                    self.running.insert(results.request());
                }
                admitted(result)
            }
            "done" => {
                let reply = Bytes::copy_from_slice(words[words.len() - 1].as_bytes());
                let request = place(&words[1..]);
                if self.running.remove(&request) {
                    sessions.complete(request, Some(reply));
                }
                return None;
            }
            "bind" => {
                let direction = match words[words.len() - 1] {
                    "fore" => Direction::Fore,
                    "back" => Direction::Back,
                    "fore-or-both" => Direction::ForeOrBoth,
                    _ => Direction::BackOrBoth,
                };
                let id = session(words[1]);
                let bound = sessions.bind_connection(now, id, connection, direction, effects);
                format!("{bound:?}")
            }
            "control" => {
                let program = CallbackProgram { program: 7, minor: 1, credential: Bytes::new() };
                let controlled = sessions.control_backchannel(session(words[1]), &program);
                let program = sessions.callback_program(session(words[1]));
                let program = program.map(|program| program.program);
                format!("{} program {program:?}", result(controlled))
            }
            "destroy" => {
                result(sessions.destroy_session(now, session(words[1]), connection, effects))
            }
            "destroy-client" => {
                let via = value::<String>(words, "via").map(|via| client(&via));
                let id = client(words[1]);
                result(sessions.destroy_client_id(now, id, via, &principal, effects))
            }
            "complete" => {
                let one_fs = words.contains(&"one-fs");
                result(sessions.reclaim_complete(now, client(words[1]), one_fs, effects))
            }
            _ => {
                self.event(now, words, effects);
                return None;
            }
        })
    }

    fn event(&mut self, now: Time, words: &[&str], effects: &mut Vec<Effect>) {
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let event = match words[0] {
            "answered" => Event::Answered(place(&words[1..]), answer(words)),
            "callback" => {
                let of = words.iter().position(|word| *word == "of");
                let of = of.map(|at| place(&words[at + 1..]));
                Event::Callback(client(words[1]), PayloadId(number(2)), of.into_iter().collect())
            }
            "conflict" => Event::Conflict(client(words[1])),
            "lost" => Event::ConnectionLost(connection_id(number(1))),
            "end-grace" => Event::EndGrace,
            "forget" => Event::Forget(owner(words[1])),
            "freed" => Event::Freed(client(words[1]), cause(words[2]), stateids(words)),
            "state" => Event::HasState(client(words[1]), words[2] == "yes"),
            "limit" => Event::LimitSlots(session(words[1]), place(&words[1..]).slot),
            "not-persisted" => Event::NotPersisted(Ticket(number(1))),
            "persisted" => {
                let ticket = Ticket(number(1));
                self.records.extend(self.writes.remove(&ticket));
                Event::Persisted(ticket)
            }
            "pressure" => Event::Pressure,
            "revoke" => Event::Revoke(client(words[1])),
            "revoked" => Event::Revoked(client(words[1]), cause(words[2]), stateids(words)),
            "tick" => Event::Tick,
            other => panic!("no such event: {other}"),
        };
        self.sessions.step(now, event, effects);
    }
}

fn numbers(word: &str) -> Vec<u64> {
    word.split('.').map(|part| part.parse().expect("a number")).collect()
}

fn client(word: &str) -> ClientId {
    let parts = numbers(word);
    ClientId(parts[0] << 32 | parts[1])
}

fn session(word: &str) -> SessionId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&client(word).0.to_be_bytes());
    id[8..].copy_from_slice(&numbers(word)[2].to_be_bytes());
    SessionId(id)
}

fn place(words: &[&str]) -> Request {
    Request {
        session: session(words[0]),
        slot: SlotId(value(words, "slot").unwrap_or(0)),
        sequence: SequenceId(value(words, "seq").unwrap_or(0)),
    }
}

fn creation(words: &[&str]) -> CreateSession {
    let number = value(words, "seq").expect("a number");
    let mut call = create(client(words[1]), number, value(words, "conn").unwrap_or(1));
    call.principal = Principal::System(value(words, "p").unwrap_or(0));
    call.back_channel = words.contains(&"back");
    call.fore.slots = value(words, "slots").unwrap_or(ASKED.slots);
    call.fore.operations = value(words, "ops").unwrap_or(ASKED.operations);
    call.fore.request_bytes = value(words, "bytes").unwrap_or(ASKED.request_bytes);
    call.fore.cached_bytes = value(words, "cached").unwrap_or(ASKED.cached_bytes);
    call.back.operations = value(words, "back-ops").unwrap_or(2);
    call.back.slots = value(words, "back-slots").unwrap_or(call.back.slots);
    call
}

fn request(words: &[&str]) -> Sequence {
    let Request { session, slot, sequence: number } = place(&words[1..]);
    let mut call = sequence(session, slot.0, number.0, value(words, "conn").unwrap_or(1));
    call.highest = SlotId(value(words, "high").unwrap_or(slot.0));
    call.cache_this = words.contains(&"keep");
    call.principal = Principal::System(value(words, "p").unwrap_or(0));
    call.digest = value(words, "digest").unwrap_or(0);
    call.operations = value(words, "ops").unwrap_or(call.operations);
    call.request_bytes = value(words, "bytes").unwrap_or(call.request_bytes);
    call
}

fn answer(words: &[&str]) -> Answer {
    let has = |word| words.contains(&word);
    match () {
        () if has("done") => Answer::Done { target: SlotId(value(words, "target").unwrap_or(9)) },
        () if has("delay") => Answer::Delay { is_sequenced: false },
        () if has("late") => Answer::Delay { is_sequenced: true },
        () if has("misordered") => Answer::Misordered,
        () => Answer::Garbled,
    }
}

fn cause(word: &str) -> Cause {
    match word {
        "administrator" => Cause::Administrator,
        "all" => Cause::ExpiredAll,
        "some" => Cause::ExpiredSome,
        _ => Cause::Recallable,
    }
}

fn stateids(words: &[&str]) -> u32 {
    words[3].parse().expect("a number of stateids")
}

fn name(owner: &Owner) -> &str {
    str::from_utf8(owner.as_bytes()).expect("a test uses text")
}

fn told_client(id: ClientId) -> String {
    format!("{}.{}", id.0 >> 32, id.0 & 0xffff_ffff)
}

fn told_session(id: SessionId) -> String {
    let half = |half: &[u8]| u64::from_be_bytes(half.try_into().expect("eight bytes"));
    format!("{}.{}", told_client(ClientId(half(&id.0[..8]))), half(&id.0[8..]))
}

fn result(result: Result<(), Error>) -> String {
    result.map_or_else(|error| format!("{error:?}"), |()| "ok".to_owned())
}

fn exchanged(result: Result<Exchanged, Error>) -> String {
    match result {
        Ok(Exchanged { client, sequence, flags }) => {
            format!("client {} seq {} flags {:#x}", told_client(client), sequence.0, flags.0)
        }
        Err(error) => format!("{error:?}"),
    }
}

fn created(result: Result<Created, Error>) -> String {
    match result {
        Ok(Created { session, sequence, back_channel, fore, back }) => format!(
            "session {} seq {}{} slots {} ops {} bytes {} cached {} back slots {} ops {}",
            told_session(session),
            sequence.0,
            if back_channel { " back" } else { "" },
            fore.slots,
            fore.operations,
            fore.request_bytes,
            fore.cached_bytes,
            back.slots,
            back.operations,
        ),
        Err(error) => format!("{error:?}"),
    }
}

fn admitted(result: Result<Admitted, Error>) -> String {
    let results = |results: Sequenced| {
        let Sequenced { highest, target, flags, .. } = results;
        format!("highest {} target {} flags {:#x}", highest.0, target.0, flags.0)
    };
    match result {
        Ok(Admitted::Run { results: of, client, .. }) => {
            format!("run for {} {}", told_client(client), results(of))
        }
        Ok(Admitted::Replay(reply)) => format!("replay {reply:?}"),
        Ok(Admitted::Uncached(of)) => format!("uncached {}", results(of)),
        Err(error) => format!("{error:?}"),
    }
}

fn on_disk(owner: &Owner, record: &Record) -> String {
    let Record { principal, is_expired, is_incomplete } = record;
    let expired = if *is_expired { " expired" } else { "" };
    let incomplete = if *is_incomplete { " incomplete" } else { "" };
    format!("{} {principal:?}{expired}{incomplete}", name(owner))
}

fn told(effect: &Effect) -> String {
    match effect {
        Effect::Delivered { client, payload } => {
            format!("delivered {} {}", told_client(*client), payload.0)
        }
        Effect::Expired(client) => format!("expired {}", told_client(*client)),
        Effect::Forget(owner) => format!("forget {}", name(owner)),
        Effect::Opened => "opened".to_owned(),
        Effect::Remember { owner, record, ticket } => {
            format!("remember {} as {}", on_disk(owner, record), ticket.0)
        }
        Effect::Remembered(client) => format!("remembered {}", told_client(*client)),
        Effect::Renewed(client) => format!("renewed {}", told_client(*client)),
        Effect::Returned => "returned".to_owned(),
        Effect::Revoke(client) => format!("revoke {}", told_client(*client)),
        Effect::Send(call) => sent(call),
        Effect::Undelivered { client, payload, reason } => {
            format!("undelivered {} {} {reason:?}", told_client(*client), payload.0)
        }
        Effect::Void(client) => format!("void {}", told_client(*client)),
    }
}

fn sent(call: &CallbackCall) -> String {
    let payload = match call.payload {
        Payload::Nothing => "nothing".to_owned(),
        Payload::Operation(payload) => payload.0.to_string(),
        Payload::RecallSlots(slot) => format!("slots {}", slot.0),
    };
    let of = call.referring.iter().map(|request| {
        format!(
            " of {} slot {} seq {}",
            told_session(request.session),
            request.slot.0,
            request.sequence.0
        )
    });
    format!(
        "send {payload} on {} over {} slot {} seq {} highest {}{}{}",
        told_session(call.session),
        call.connection.slot,
        call.slot.0,
        call.sequence.0,
        call.highest.0,
        of.collect::<String>(),
        if call.is_retry { " again" } else { "" },
    )
}
