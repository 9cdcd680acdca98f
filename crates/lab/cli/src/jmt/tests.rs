//! An exported model, imported again, has the same solution.

use super::*;
use leasehold_lab_network::solve;

const MODEL: &str = r#"{
  "format": "leasehold-model-1", "title": "two classes & a server",
  "centres": [
    { "name": "net", "kind": "delay" },
    { "name": "cpu", "kind": { "servers": { "count": { "value": 2, "from": "assumed" } } },
      "discipline": "processor-sharing" },
    { "name": "disk", "kind": "queue", "discipline": "processor-sharing" }
  ],
  "classes": [
    { "name": "a", "kind": { "closed": { "population": { "value": 5, "from": "assumed" },
        "think": { "value": 1, "unit": "s", "from": "assumed" } } },
      "demands": { "net": { "value": 3, "unit": "ms", "from": "assumed" },
        "cpu": { "value": 200, "unit": "ms", "from": "assumed" },
        "disk": { "value": 100, "unit": "ms", "from": "assumed", "law": { "erlang": { "stages": 2 } } } } },
    { "name": "b", "kind": { "open": { "rate": { "value": 2, "unit": "1/s", "from": "assumed" } } },
      "demands": { "disk": { "value": 50, "unit": "ms", "from": "assumed",
        "law": { "hyperexponential": { "scv": 3 } } } } }
  ]
}"#;

fn same_answers(text: &str) {
    let ours = Model::parse(MODEL).expect("well formed");
    let back = import(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(back.centres.len(), ours.centres.len());
    let (a, b) = (solve(&ours.network()), solve(&back.network()));
    let (a, b) = (a.expect("solved"), b.expect("solved"));
    for (a, b) in a.throughput.iter().chain(&a.response).zip(b.throughput.iter().chain(&b.response))
    {
        assert!((a / b - 1.0).abs() < 1e-12, "{a} {b}");
    }
}

#[test]
fn jmva_round_trip_keeps_the_solution() {
    let model = Model::parse(MODEL).expect("well formed");
    same_answers(&export(&model, Tool::Jmva).expect("can be said"));
}

#[test]
fn jsimgraph_round_trip_keeps_the_solution_and_distributions() {
    let model = Model::parse(MODEL).expect("well formed");
    let text = export(&model, Tool::Jsimgraph).expect("can be said");
    same_answers(&text);
    let back = import(&text).expect("our own file");
    for (ours, theirs) in model.classes.iter().zip(&back.classes) {
        for (centre, demand) in &ours.demands {
            let law = theirs.demands[centre].law;
            let same = match (demand.law, law) {
                (
                    leasehold_lab_network::model::Law::Hyperexponential { scv: a },
                    leasehold_lab_network::model::Law::Hyperexponential { scv: b },
                ) => (a - b).abs() < 1e-9,
                (a, b) => a == b,
            };
            assert!(same, "{centre}: {law:?}");
        }
    }
}

#[test]
fn load_dependent_stations_and_visits_are_read() {
    let text = r#"<model><parameters>
      <classes number="1"><closedclass name="c" population="4"/></classes>
      <stations number="2">
        <listation name="cpu" servers="1"><servicetimes><servicetime customerclass="c">0.5</servicetime>
          </servicetimes><visits><visit customerclass="c">2.0</visit></visits></listation>
        <ldstation name="net"><servicetimes><servicetime customerclass="c">1.0;0.5;0.4;0.4</servicetime>
          </servicetimes><visits><visit customerclass="c">1.0</visit></visits></ldstation>
      </stations></parameters></model>"#;
    let network = import(text).expect("well formed").network();
    assert_eq!(network.centres[0].demands, [1.0]);
    assert_eq!(network.centres[1].rates(), Some(vec![1.0, 2.0, 2.5, 2.5]));
}

#[test]
fn import_rejects_unsupported_properties() {
    let model = Model::parse(MODEL).expect("well formed");
    let text = export(&model, Tool::Jsimgraph).expect("can be said");
    for (from, to, complaint) in [
        ("className=\"Router\"", "className=\"Fork\"", "a section Fork is not covered"),
        ("className=\"ServiceTunnel\"", "className=\"Join\"", "a section Join is not covered"),
        ("name=\"Probabilities\"", "name=\"Round Robin\"", "the routing \"Round Robin\""),
        ("<preload", "<blockingRegion/><preload", "regions of finite capacity"),
    ] {
        assert!(text.contains(from), "{from}");
        let refused = import(&text.replace(from, to)).expect_err("refused");
        assert!(refused.contains(complaint), "{refused}");
    }
}

#[test]
fn export_rejects_unsupported_properties() {
    let cached = MODEL.replace(
        r#""name": "b", "#,
        r#""name": "b", "timeout": { "after": { "value": 1, "unit": "s", "from": "assumed" },
          "retries": 1 }, "#,
    );
    let model = Model::parse(&cached).expect("well formed");
    let refused = export(&model, Tool::Jmva).expect_err("a timeout").to_string();
    assert_eq!(refused, "class \"b\": a timeout cannot be exported");
    assert!(import("<other/>").expect_err("neither").contains("neither"));
    assert!(import("<model>").is_err());
}
