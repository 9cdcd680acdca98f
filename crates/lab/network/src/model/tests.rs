//! Tests of model files: accepted files, rejected files and error messages.

use super::*;
use crate::{CentreKind, solve};

const DISKLESS: &str = r#"{
  "format": "leasehold-model-1",
  "title": "Diskless workstations",
  "centres": [
    { "name": "network", "kind": { "ethernet": {
        "frame": { "value": 1090, "unit": "B", "from": "assumed" },
        "bandwidth": { "value": 10, "unit": "Mbit/s", "from": "assumed" },
        "slot": { "value": 51.2, "unit": "us", "from": "assumed" } } } },
    { "name": "server cpu", "kind": "queue" },
    { "name": "disk", "kind": { "servers": { "count": { "value": 2, "from": "assumed" } } },
      "discipline": "processor-sharing" }
  ],
  "classes": [
    { "name": "workstation",
      "kind": { "closed": {
        "population": { "value": 10, "from": "assumed" },
        "think": { "value": 937.6, "unit": "ms", "from": "seed", "where": "000, chapter 3" } } },
      "demands": {
        "network": { "value": 3.6, "unit": "ms", "from": "assumed" },
        "server cpu": { "value": 40, "unit": "ms", "from": "assumed", "law": "constant" },
        "disk": { "value": 37.6, "unit": "ms", "from": "assumed", "law": { "erlang": { "stages": 2 } } } } }
  ]
}"#;

fn problems(text: &str) -> Vec<String> {
    Model::parse(text).expect_err("refused").iter().map(ToString::to_string).collect()
}

#[test]
fn a_model_becomes_seconds_and_rates() {
    let model = Model::parse(DISKLESS).expect("well formed");
    let network = model.network();
    assert_eq!(network.centres[2].kind, CentreKind::Servers(2));
    let CentreKind::LoadDependent(rates) = &network.centres[0].kind else { panic!("an Ethernet") };
    assert_eq!(rates.len(), 10);
    assert!((rates[1] - 0.944_540_727_902_946_2).abs() < 1e-12);
    assert_eq!(network.centres[0].demands[0].to_bits(), 0.0036_f64.to_bits());
    assert!((solve(&network).expect("solved").throughput[0] - 9.7).abs() < 0.1);
    assert_eq!(model.left_out(), ["centre \"server cpu\": service is taken as exponential"]);
}

#[test]
fn written_models_are_read_back() {
    let model = Model::parse(DISKLESS).expect("well formed");
    assert_eq!(Model::parse(&model.to_json()).expect("our own text"), model);
}

#[test]
fn errors_name_the_place_and_the_correction() {
    let wrong = |from: &str, to: &str| problems(&DISKLESS.replace(from, to));
    assert_eq!(
        wrong("\"kind\": \"queue\"", "\"kind\": \"cue\"")[0],
        "line 9, column 41: unknown variant `cue`, expected one of `delay`, `queue`, `servers`, \
         `load-dependent`, `ethernet`"
    );
    assert_eq!(
        wrong("\"unit\": \"ms\", \"from\": \"seed\"", "\"unit\": \"B\", \"from\": \"seed\""),
        ["classes[\"workstation\"].think: the unit must be us, ms, s, min or h"]
    );
    assert_eq!(
        wrong("\"server cpu\": {", "\"server\": {"),
        ["classes[\"workstation\"].demands: there is no centre \"server\""]
    );
    assert_eq!(
        wrong(", \"where\": \"000, chapter 3\"", ""),
        ["classes[\"workstation\"].think: a measured or seed number needs \"where\""]
    );
    assert_eq!(
        wrong("\"value\": 10, \"from\"", "\"value\": 10.5, \"from\""),
        ["classes[\"workstation\"].population: must be a whole number from 0 to 1000000000"]
    );
    assert!(wrong("\"title\"", "\"titel\"")[0].starts_with("line 3, column 9: unknown field"));
    assert_eq!(
        wrong("\"disk\": { \"value\": 37.6", "\"network\": { \"value\": 37.6"),
        ["line 21, column 17: \"network\" stands twice"]
    );
    assert_eq!(
        wrong("\"value\": 40, \"unit\": \"ms\"", "\"value\": 4e6, \"unit\": \"h\""),
        ["classes[\"workstation\"].demands[\"server cpu\"]: must be 0 or lie between 1e-15 and \
          1e9 seconds"]
    );
    let routed =
        |route: &str| wrong("\"demands\": {", &format!("\"route\": {route}, \"demands\": {{"));
    let step = "a step is the name of a centre or { \"fork\": [names] }";
    for route in ["[7]", "[{ \"fork\": [\"disk\"], \"join\": 1 }]"] {
        assert!(routed(route)[0].ends_with(step), "{:?}", routed(route));
    }
    assert_eq!(
        routed("[\"moon\"]")[0],
        "classes[\"workstation\"].route: there is no centre \"moon\""
    );
    assert_eq!(wrong("model-1", "model-2"), ["format: must be \"leasehold-model-1\""]);
}
