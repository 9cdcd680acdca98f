//! Dialogues, one for each rule.

use super::*;
use crate::dialogue::{play, value};

fn name(number: u8) -> Name {
    Name([number; 16])
}

#[test]
fn dialogues() {
    play("leases/clients", || {
        let mut list: BTreeMap<Name, u64> = BTreeMap::new();
        let mut clients = Clients::new(Time::ZERO, Terms::DEFAULT, 1, list.clone());
        move |now, words| {
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            let client = || name(words[1].parse().expect("a client"));
            let event = match words[0] {
                "restart" => {
                    let epoch = clients.epoch() + 1;
                    clients = Clients::new(now, Terms::DEFAULT, epoch, list.clone());
                    return Vec::new();
                }
                "admit" => {
                    let epoch = value(words, "epoch").expect("an epoch");
                    let admitted = clients.admit(now, (client(), number(2)), epoch);
                    return vec![format!("{admitted:?}")];
                }
                "list" => {
                    return list.iter().map(|(name, at)| format!("{} {at}", name.0[0])).collect();
                }
                "hello" => Event::Hello(client(), number(2)),
                "asks" => {
                    let client = Client(words[1].parse().expect("a client"));
                    Event::Asks(client, Ticket(number(2)))
                }
                "listed" => Event::Listed(client(), number(2)),
                "not-listed" => Event::NotListed(client(), number(2)),
                "given-up" => {
                    let client = Client(words[2].parse().expect("a client"));
                    Event::GivenUp(Ticket(number(1)), client)
                }
                "wake" => return vec![format!("{:?}", clients.next_wake())],
                "reclaimed" => Event::Reclaimed(Client(words[1].parse().expect("a client"))),
                "recovered" => Event::Recovered(Client(words[1].parse().expect("a client"))),
                "wrote" => Event::Wrote,
                "gone" => Event::Gone(client()),
                "tick" => Event::Tick,
                other => panic!("no such event: {other}"),
            };
            let mut effects = Vec::new();
            clients.step(now, event, &mut effects);
            clients.check();
            for effect in &effects {
                if let Effect::List(name, instance) = effect {
                    list.insert(*name, *instance);
                } else if let Effect::Unlist(name) = effect {
                    list.remove(name);
                }
            }
            effects.iter().map(told).collect()
        }
    });
}

fn told(effect: &Effect) -> String {
    match effect {
        Effect::Welcome(name, client) => format!("welcome {} as {}", name.0[0], client.0),
        Effect::Superseded(name, instance) => format!("superseded {} by {instance}", name.0[0]),
        Effect::List(name, instance) => format!("list {} {instance}", name.0[0]),
        Effect::Unlist(name) => format!("unlist {}", name.0[0]),
        Effect::Proceed(ticket) => format!("proceed {}", ticket.0),
        Effect::Decline(ticket) => format!("decline {}", ticket.0),
        Effect::Forget(client) => format!("forget {}", client.0),
        Effect::Reclaimed => "reclaimed".to_owned(),
        Effect::Open => "open".to_owned(),
    }
}
