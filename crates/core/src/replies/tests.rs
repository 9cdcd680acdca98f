use super::*;

#[test]
fn a_copy_of_a_finished_call_gets_its_reply() {
    let limits = Limits { entries: 2, bytes: 10, age: Duration::from_secs(1) };
    let mut replies = Replies::new(limits);
    let origin = Origin::datagram(SocketAddr::from(([10, 0, 0, 1], 700)));
    let call = Call { xid: Xid(1), program: 100_003, version: 3, procedure: 12, checksum: 5 };
    let mut effects = Vec::new();
    let mut step = |event| {
        effects.clear();
        replies.step(Time::ZERO, event, &mut effects);
        effects.clone()
    };
    assert_eq!(step(Event::Call { origin, call }), [Effect::Execute(Ticket(0))]);
    assert_eq!(step(Event::Call { origin, call }), [Effect::Drop]);
    let reply = Bytes::from_static(b"reply");
    assert_eq!(step(Event::Done { ticket: Ticket(0), reply: reply.clone() }), []);
    assert_eq!(step(Event::Call { origin, call }), [Effect::Resend(reply)]);
}
