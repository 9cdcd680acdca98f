//! Every command on the example models, with the same parsing as the binary.

use clap::Parser;
use leasehold_lab_cli::{Lab, run};
use std::path::{Path, PathBuf};

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    lab: Lab,
}

fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/lab/models")
}

fn model(name: &str) -> String {
    models().join(format!("{name}.json")).display().to_string()
}

/// Returns the output of a command, or its error.
fn lab(words: &[&str]) -> Result<String, String> {
    let line = Line::try_parse_from([&["lab"], words].concat()).map_err(|e| e.to_string())?;
    let mut out = Vec::new();
    run(&line.lab, &mut out).map_err(|failure| failure.to_string())?;
    Ok(String::from_utf8(out).expect("text"))
}

fn json(words: &[&str]) -> serde_json::Value {
    let text = lab(&[words, &["--json"]].concat()).expect("an answer");
    serde_json::from_str(&text).expect("JSON")
}

fn temporary(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn every_example_is_valid_and_the_schema_equals_the_document() {
    let files: Vec<String> = std::fs::read_dir(models())
        .expect("the examples")
        .map(|entry| entry.expect("an entry").path().display().to_string())
        .filter(|path| !path.ends_with("schema.json"))
        .collect();
    assert!(files.len() >= 7);
    let words: Vec<&str> =
        core::iter::once("check").chain(files.iter().map(String::as_str)).collect();
    assert_eq!(lab(&words).expect("right").matches(": right").count(), files.len());
    let schema = std::fs::read_to_string(models().join("../model.schema.json")).expect("there");
    assert!(schema == lab(&["schema"]).expect("a schema"), "write it anew with `lab schema`");
}

#[test]
fn check_names_file_and_place() {
    let path = temporary("wrong.json");
    std::fs::write(&path, "{ \"format\": 1 }").expect("written");
    let complaint = lab(&["check", &path.display().to_string()]).expect_err("refused");
    assert!(complaint.contains("wrong.json: line 1, column 13: invalid type"), "{complaint}");
}

#[test]
fn solve_prints_a_table_and_json() {
    let text = lab(&["solve", &model("diskless"), "--sensitivity"]).expect("solved");
    assert!(text.contains("\"server cpu\" limits the system: busy 39.1 %"), "{text}");
    let answer = json(&["solve", &model("diskless")]);
    let throughput = answer["results"][0]["throughput_per_s"].as_f64().expect("a number");
    assert!((throughput - 9.766_439_288_630_396).abs() < 1e-6);
    let csv = lab(&["solve", &model("mixed"), "--csv"]).expect("solved");
    assert_eq!(
        csv.lines().next(),
        Some("class,centre,throughput_per_s,response_s,present,utilisation")
    );
    let linearizer = lab(&["solve", &model("mixed"), "--method", "linearizer"]);
    assert!(linearizer.expect_err("open").contains("closed classes only"));
}

#[test]
fn approximations_state_their_error() {
    let text = std::fs::read_to_string(model("diskless-low-variance")).expect("there");
    let known = json(&["solve", &model("diskless-low-variance"), "--method", "bard-schweitzer"]);
    let error = known["throughput_error"]["known"].as_f64().expect("a number");
    assert!(error > 1e-4 && error < 0.05, "{error}");
    // Twenty thousand customers in each of two classes: too many points for an exact solution.
    let mut large: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut class = large["classes"][0].clone();
    class["kind"]["closed"]["population"]["value"] = 20_000.into();
    large["classes"][0] = class.clone();
    class["name"] = "others".into();
    large["classes"].as_array_mut().expect("a list").push(class);
    let path = temporary("large.json").display().to_string();
    std::fs::write(&path, large.to_string()).expect("written");
    assert!(lab(&["solve", &path]).expect_err("too large").contains("--method linearizer"));
    let text = lab(&["solve", &path, "--method", "linearizer"]).expect("solved");
    assert!(text.contains("Bard-Schweitzer and Linearizer differ by"), "{text}");
}

#[test]
fn simulate_agrees_with_solve() {
    let simulated = json(&["simulate", &model("mixed"), "--width", "0.02"]);
    let solved = json(&["solve", &model("mixed")]);
    for (class, solved) in solved["results"].as_array().expect("rows").iter().take(2).enumerate() {
        let name = &solved["class"];
        let outcome = simulated["results"]
            .as_array()
            .expect("rows")
            .iter()
            .find(|row| row["class"] == *name && row["quantity"] == "response")
            .expect("there");
        let number = |value: &serde_json::Value| value.as_f64().expect("a number");
        let (ours, exact) = (number(&outcome["mean"]), number(&solved["response_s"]));
        assert!((ours / exact - 1.0).abs() < 0.03, "{class}: {ours} {exact}");
    }
}

#[test]
fn sweep_and_plot_draw() {
    let picture = temporary("sweep.svg");
    let path = picture.display().to_string();
    let vary = ["--vary", "servers:server cpu", "--over", "1..3"];
    let diskless = model("diskless");
    let words = [&["sweep", &diskless], &vary[..], &["--plot", &path]].concat();
    let text = lab(&words).expect("swept");
    assert_eq!(text.lines().count(), 4);
    assert!(std::fs::read_to_string(&picture).expect("drawn").contains("servers at server cpu"));
    lab(&["plot", &model("diskless-low-variance"), "--to", "30", "-o", &path]).expect("drawn");
    assert!(std::fs::read_to_string(&picture).expect("drawn").contains("balanced bounds"));
    let wrong = lab(&["sweep", &model("diskless"), "--vary", "servers:moon", "--over", "1..2"]);
    assert!(wrong.expect_err("no such centre").contains("nothing to turn"));
}

#[test]
fn plan_prints_one_sentence() {
    let answer = json(&["plan", &model("diskless"), "--slo", "mean < 100 ms"]);
    assert_eq!(answer["clients"], 13);
    let verdict = answer["verdict"].as_str().expect("a sentence");
    assert!(verdict.starts_with("13 clients keep mean below 100 ms"), "{verdict}");
    assert!(verdict.contains("\"server cpu\" is next") && verdict.contains("carries 30"));
}

#[test]
fn plan_finds_the_cheapest_upgrade() {
    let prices = ["--price", "server cpu=900", "--price", "disk=300", "--price", "network=100"];
    let diskless = model("diskless");
    let goal = ["plan", &diskless, "--slo", "mean < 100 ms", "--clients", "40"];
    let answer = json(&[&goal[..], &prices[..]].concat());
    // Two more processors suffice with the old disk or not at all; an exhaustive search gives the
    // same result.
    let cost = answer["cost"].as_f64().expect("a number");
    let mut cheapest = f64::INFINITY;
    for cpu in 0..4 {
        for disk in 0..4 {
            let text = std::fs::read_to_string(model("diskless")).expect("there");
            let mut model: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            let servers = |n: i32| serde_json::json!({ "servers": { "count": { "value": n + 1, "from": "assumed" } } });
            model["centres"][1]["kind"] = servers(cpu);
            model["centres"][2]["kind"] = servers(disk);
            model["classes"][0]["kind"]["closed"]["population"]["value"] = 40.into();
            let path = temporary("upgrade.json");
            std::fs::write(&path, model.to_string()).expect("written");
            let solved = json(&["solve", &path.display().to_string()]);
            if solved["results"][0]["response_s"].as_f64().expect("a number") < 0.1 {
                cheapest = cheapest.min(f64::from(cpu) * 900.0 + f64::from(disk) * 300.0);
            }
        }
    }
    assert!((cost - cheapest).abs() < 1e-9, "{cost} {cheapest}");
}

#[test]
fn plan_chooses_a_transport() {
    let answer = json(&["plan", "--transport", "--rtt-ms", "40", "--loss", "0.01"]);
    assert_eq!(answer["way"], "TCP, kept open");
    assert!(lab(&["plan", "--transport", "--loss", "0.9"]).expect_err("refused").contains("loss"));
    assert!(lab(&["plan"]).is_err());
}

#[test]
fn policies_count_calls() {
    let rows = json(&["policies"]);
    assert_eq!(rows.as_array().expect("rows").len(), 6);
    assert_eq!(rows[0]["policy"], "nfs");
    let shared = json(&["policies", "--workload", "sharing"]);
    let stale = |row: usize| shared[row]["stale_reads"].as_f64().expect("a number");
    assert_eq!(shared[1]["policy"], "nqnfs");
    assert!(stale(0) > 100.0 && stale(1) == 0.0, "{} {}", stale(0), stale(1));
}

#[test]
fn export_and_import_round_trip() {
    for tool in ["jmva", "jsimgraph"] {
        let xml = lab(&["export", &model("mixed"), "--to", tool]).expect("exported");
        let path = temporary(&format!("mixed-{tool}.xml"));
        std::fs::write(&path, xml).expect("written");
        let back = lab(&["import", &path.display().to_string()]).expect("imported");
        assert!(back.contains("leasehold-model-1"));
    }
    assert!(
        lab(&["export", &model("leases")]).expect_err("a cache").contains("cannot be exported")
    );
}

#[test]
fn the_gallery_is_a_page_of_pictures() {
    let directory = temporary("gallery");
    lab(&["gallery", &directory.display().to_string()]).expect("drawn");
    let page = std::fs::read_to_string(directory.join("README.md")).expect("a page");
    assert_eq!(page.matches(".svg)").count(), 15);
    assert!(page.contains("Table 1"));
}

#[test]
fn every_example_can_be_planned() {
    for entry in std::fs::read_dir(models()).expect("the examples") {
        let path = entry.expect("an entry").path().display().to_string();
        for level in ["mean < 100 ms", "p95 < 10 ms", "p99 < 1 s"] {
            let words = ["plan", &path, "--slo", level, "--effort", "5000", "--most", "300"];
            let verdict = json(&words)["verdict"].to_string();
            let sentence = verdict.contains("below") && verdict.ends_with(".\"");
            assert!(sentence && verdict.matches(". ").count() == 0, "{path} {level}: {verdict}");
        }
    }
}

/// Caches begin filled: a small effort gives a wider interval, not another result, and reports it.
#[test]
fn plans_with_small_effort_agree_and_report_shortfalls() {
    let plan = |effort: &str| {
        let words = ["plan", &model("leases"), "--slo", "p95 < 10 ms", "--effort", effort];
        json(&words)
    };
    let (little, more) = (plan("50000"), plan("400000"));
    let limit = |answer: &serde_json::Value| {
        let clients = answer["clients"].as_f64().expect("a number");
        let curve = answer["curve"].as_array().expect("rows");
        let here = curve.iter().find(|row| row["clients"].as_f64() == Some(clients));
        let of = |key: &str| here.and_then(|row| row[key].as_f64()).expect("a number");
        (clients, of("plus_minus") / of("p95_s"))
    };
    let ((few, wide), (many, narrow)) = (limit(&little), limit(&more));
    // Near the limit p95 rises three times as fast as the number of clients, so this margin is
    // wide.
    assert!((few / many - 1.0).abs() < 0.02 + wide + narrow, "{few} {wide} {many} {narrow}");
    let verdict = little["verdict"].as_str().expect("a sentence");
    assert!(verdict.contains("; this is unsure: ") && verdict.contains("--effort"), "{verdict}");
    assert!(little["unfinished"].as_array().is_some_and(|lacks| !lacks.is_empty()));
    let sure = json(&["plan", &model("diskless"), "--slo", "mean < 100 ms"]);
    assert!(sure["unfinished"].as_array().is_some_and(Vec::is_empty));
    assert!(!sure["verdict"].to_string().contains("unsure"));
}

#[test]
fn plan_reports_why_no_upgrade_helps() {
    let goal = ["plan", &model("diskless"), "--slo", "mean < 30 ms", "--clients", "40"];
    let refused = lab(&[&goal[..], &["--price", "disk=1"]].concat()).expect_err("hopeless");
    assert!(refused.contains("with 63 more of each it would still take"), "{refused}");
    let unknown = lab(&[&goal[..], &["--price", "moon=1"]].concat()).expect_err("unknown");
    assert!(unknown.contains("\"moon\" is not a centre"), "{unknown}");
}

#[test]
fn templates_make_models_that_look_accepts() {
    let all = json(&["template"]);
    assert_eq!(all.as_array().expect("templates").len(), 4);
    let model = lab(&["template", "nfsp", "--set", "iods=2", "--set", "clients=5"]).expect("made");
    assert!(model.contains("\"iod 2\"") && !model.contains("\"iod 3\""));
    let path = temporary("nfsp.json");
    std::fs::write(&path, model).expect("written");
    let path = path.display().to_string();
    let text = lab(&["look", &path, "--slo", "p95 < 10 ms"]).expect("an answer");
    assert!(text.contains("keep p95 below 10.0 ms") && text.contains("\"iod\" is next"), "{text}");
    let curve = lab(&["look", &path, &path, "--curve", "--csv"]).expect("a curve");
    assert!(curve.lines().next().is_some_and(|line| line.starts_with("file,load,throughput")));
    let wrong = lab(&["template", "nfsp", "--set", "moons=2"]).expect_err("no such dial");
    assert!(wrong.contains("it has clients, metaservers, iods"), "{wrong}");
    assert!(lab(&["template", "server", "--set", "cores=1.5"]).is_err());
}

#[test]
fn estimates_are_near_simulated_values() {
    for (name, limit) in [("server", 0.08), ("nfsp", 0.08), ("diskless", 0.12)] {
        let path = temporary(&format!("near-{name}.json"));
        std::fs::write(&path, lab(&["template", name]).expect("made")).expect("written");
        let path = path.display().to_string();
        let view = &json(&["look", &path])[0]["view"];
        let simulated = json(&["simulate", &path, "--width", "0.01", "--services-max", "1000000"]);
        for (quantity, key) in
            [("response", "mean"), ("response_p95", "p95"), ("throughput", "throughput")]
        {
            let rows = simulated["results"].as_array().expect("rows");
            let row = rows.iter().find(|row| row["quantity"] == quantity).expect("there");
            let mean = row["mean"].as_f64().expect("a number");
            let ours = view["classes"][0][key].as_f64().expect("a number");
            assert!((ours / mean - 1.0).abs() < limit, "{name} {key}: {ours} {mean}");
        }
    }
}

#[test]
fn the_page_is_saved_as_one_file() {
    let path = temporary("lab.html").display().to_string();
    lab(&["ui", "--save", &path]).expect("saved");
    let page = std::fs::read_to_string(&path).expect("there");
    assert!(page.starts_with("<!doctype html>") && page.len() > 500_000);
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = busy.local_addr().expect("bound").to_string();
    let complaint = lab(&["ui", "--listen", &address]).expect_err("in use");
    assert!(complaint.contains("cannot listen"), "{complaint}");
}
