//! Invariants of every network, tested on random networks, and comparison with brute force.

use leasehold_lab_network::{
    Centre, CentreKind, Class, ClassKind, Network, Solution, approximate, bounds, rates,
    sensitivity, solve, surface,
};
use proptest::prelude::*;

fn class(kind: ClassKind) -> Class {
    Class { name: "class".into(), kind }
}

fn centre(kind: CentreKind, demands: Vec<f64>) -> Centre {
    Centre { name: "centre".into(), kind, demands }
}

fn any_kind() -> impl Strategy<Value = CentreKind> {
    prop_oneof![
        1 => Just(CentreKind::Delay),
        4 => Just(CentreKind::Queue),
        2 => (1_usize..4).prop_map(CentreKind::Servers),
        1 => proptest::collection::vec(0.3_f64..2.5, 1..5).prop_map(CentreKind::LoadDependent),
    ]
}

fn closed_network(kinds: impl Strategy<Value = CentreKind>) -> impl Strategy<Value = Network> {
    let classes = proptest::collection::vec((1_usize..5, 0.0_f64..3.0), 1..3);
    let centres = proptest::collection::vec((kinds, [0.01_f64..1.0, 0.0_f64..1.0]), 1..4);
    (classes, centres).prop_map(|(classes, centres)| Network {
        classes: classes
            .iter()
            .map(|&(population, think)| class(ClassKind::Closed { population, think }))
            .collect(),
        centres: centres
            .into_iter()
            .map(|(kind, demands)| {
                // The check rejects a class without any demand and think time.
                let demands = demands.iter().take(classes.len()).map(|d| d + 0.001).collect();
                centre(kind, demands)
            })
            .collect(),
    })
}

/// Queue lengths and throughput of a closed network by summing over every state.
struct BruteForce {
    throughput: Vec<f64>,
    queue: Vec<Vec<f64>>,
}

/// Returns all distributions of `population` over `places`.
fn spread(population: &[usize], places: usize) -> Vec<Vec<Vec<usize>>> {
    let mut states = vec![vec![vec![0; population.len()]; places]];
    for (class, &count) in population.iter().enumerate() {
        let mut more = Vec::new();
        for state in states {
            let mut shares = vec![vec![]];
            for _ in 0..places {
                shares = shares
                    .into_iter()
                    .flat_map(|share: Vec<usize>| {
                        let left = count - share.iter().sum::<usize>();
                        (0..=left).map(move |n| share.iter().copied().chain([n]).collect())
                    })
                    .collect();
            }
            for share in shares.into_iter().filter(|share| share.iter().sum::<usize>() == count) {
                let mut next = state.clone();
                next.iter_mut().zip(share).for_each(|(place, n)| place[class] = n);
                more.push(next);
            }
        }
        states = more;
    }
    states
}

fn factorial(n: usize) -> f64 {
    (1..=n).map(|k| k as f64).product()
}

/// Returns the weight of a centre with `state` closed and `open` open customers of load `load`.
fn weight(centre: &Centre, state: &[usize], open: usize, load: f64) -> f64 {
    let total: usize = state.iter().sum::<usize>() + open;
    let mut weight = load.powi(i32::try_from(open).expect("small")) / factorial(open);
    for (count, demand) in state.iter().zip(&centre.demands) {
        weight *= demand.powi(i32::try_from(*count).expect("small")) / factorial(*count);
    }
    match centre.rates() {
        None => weight,
        Some(rates) => (1..=total).fold(weight, |w, n| w * n as f64 / rates::rate_at(&rates, n)),
    }
}

fn constant(network: &Network, population: &[usize]) -> (f64, Vec<Vec<f64>>) {
    let mut sum = 0.0;
    let mut queue = vec![vec![0.0; population.len()]; network.centres.len()];
    let think = centre(CentreKind::Delay, network.think_times());
    for state in spread(population, network.centres.len() + 1) {
        let product: f64 = network
            .centres
            .iter()
            .chain([&think])
            .zip(&state)
            .map(|(centre, state)| weight(centre, state, 0, 0.0))
            .product();
        sum += product;
        for (row, state) in queue.iter_mut().zip(&state) {
            row.iter_mut().zip(state).for_each(|(cell, n)| *cell += product * *n as f64);
        }
    }
    queue.iter_mut().flatten().for_each(|cell| *cell /= sum);
    (sum, queue)
}

fn brute_force(network: &Network) -> BruteForce {
    let population = network.population();
    let (whole, queue) = constant(network, &population);
    let throughput = (0..population.len())
        .map(|class| {
            let mut fewer = population.clone();
            fewer[class] -= 1;
            constant(network, &fewer).0 / whole
        })
        .collect();
    BruteForce { throughput, queue }
}

fn near(ours: f64, reference: f64, tolerance: f64) -> bool {
    (ours - reference).abs() <= tolerance * (1.0 + reference.abs())
}

fn littles_law_holds(network: &Network, solution: &Solution) -> bool {
    let think = network.think_times();
    network.population().iter().enumerate().all(|(class, &count)| {
        let cycle = solution.response[class] + think[class];
        let open = matches!(network.classes[class].kind, ClassKind::Open { .. });
        open || near(solution.throughput[class] * cycle, count as f64, 1e-10)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn exact_answers_equal_the_sum_over_all_states(network in closed_network(any_kind())) {
        let ours = solve(&network).expect("solved");
        let reference = brute_force(&network);
        for (class, throughput) in reference.throughput.iter().enumerate() {
            prop_assert!(near(ours.throughput[class], *throughput, 1e-11));
        }
        for (ours, reference) in ours.queue.iter().flatten().zip(reference.queue.iter().flatten()) {
            prop_assert!(near(*ours, *reference, 1e-11));
        }
        prop_assert!(littles_law_holds(&network, &ours));
    }

    #[test]
    fn a_surface_answers_for_every_population(network in closed_network(any_kind())) {
        let surface = surface(&network).expect("solved");
        let mut fewer = network.population();
        fewer[0] -= 1;
        let alone = solve(&network.with_population(&fewer)).expect("solved");
        let ours = surface.at(&fewer);
        for (ours, alone) in ours.queue.iter().flatten().zip(alone.queue.iter().flatten()) {
            prop_assert!(near(*ours, *alone, 1e-11));
        }
    }

    #[test]
    fn throughput_rises_with_the_population_and_stays_within_bounds(
        demands in proptest::collection::vec(0.01_f64..1.0, 1..6),
        think in 0.0_f64..20.0,
        population in 1_usize..60,
    ) {
        let network = Network {
            classes: vec![class(ClassKind::Closed { population, think })],
            centres: demands.iter().map(|d| centre(CentreKind::Queue, vec![*d])).collect(),
        };
        let surface = surface(&network).expect("solved");
        let (mut before, mut response) = (0.0, 0.0);
        for count in 1..=population {
            let at = surface.at(&[count]);
            prop_assert!(at.throughput[0] > before * (1.0 - 1e-12));
            prop_assert!(at.response[0] > response * (1.0 - 1e-12));
            (before, response) = (at.throughput[0], at.response[0]);
            let bounds = bounds::bounds(&network.with_population(&[count])).expect("covered");
            for range in [bounds.asymptotic.throughput, bounds.balanced.throughput] {
                prop_assert!(at.throughput[0] >= range.least * (1.0 - 1e-12));
                prop_assert!(at.throughput[0] <= range.most * (1.0 + 1e-12));
            }
            prop_assert!(bounds.balanced.throughput.least >= bounds.asymptotic.throughput.least * (1.0 - 1e-12));
        }
    }

    #[test]
    fn exact_slopes_equal_differences(network in closed_network(any_kind())) {
        for slope in sensitivity::elasticities(&network).expect("solved") {
            let at = |factor: f64| {
                let mut moved = network.clone();
                moved.centres[slope.centre].demands[slope.class] *= factor;
                solve(&moved).expect("solved").throughput
            };
            let (base, more, less) = (at(1.0), at(1.0001), at(0.9999));
            for class in 0..base.len() {
                let difference = (more[class] - less[class]) / (0.0002 * base[class]);
                prop_assert!(near(slope.throughput[class], difference, 1e-6));
            }
        }
    }

    #[test]
    fn approximations_keep_littles_law(network in closed_network(Just(CentreKind::Queue))) {
        for solution in [approximate::bard_schweitzer(&network), approximate::linearizer(&network)] {
            prop_assert!(littles_law_holds(&network, &solution.expect("covered")));
        }
    }

    #[test]
    fn mixed_networks_equal_the_sum_over_all_states(
        population in 1_usize..5,
        think in 0.0_f64..2.0,
        rate in 0.05_f64..0.6,
        centres in proptest::collection::vec((any_kind(), 0.05_f64..0.9, 0.05_f64..0.4), 1..3),
    ) {
        let network = Network {
            classes: vec![
                class(ClassKind::Closed { population, think }),
                class(ClassKind::Open { rate }),
            ],
            centres: centres.into_iter().map(|(k, a, b)| centre(k, vec![a, b])).collect(),
        };
        let ours = solve(&network).expect("the load is below every rate");
        // For each centre the weight of j closed customers, summed over the open ones, and the same
        // sum weighted with the number of open customers.
        let sums: Vec<Vec<(f64, f64)>> = network.centres.iter().map(|centre| {
            let load = rate * centre.demands[1];
            (0..=population).map(|j| {
                let mut sums = (0.0, 0.0);
                for open in 0..150 {
                    let w = weight(&Centre { demands: vec![centre.demands[0]], ..centre.clone() }, &[j], open, load);
                    sums.0 += w;
                    sums.1 += w * open as f64;
                }
                sums
            }).collect()
        }).collect();
        let mut total = 0.0;
        let mut open = vec![0.0; network.centres.len()];
        let mut closed = vec![0.0; network.centres.len()];
        for state in spread(&[population], network.centres.len() + 1) {
            let thinking = state[network.centres.len()][0];
            let mut product = think.powi(i32::try_from(thinking).expect("small")) / factorial(thinking);
            for (sums, state) in sums.iter().zip(&state) {
                product *= sums[state[0]].0;
            }
            total += product;
            for (index, sums) in sums.iter().enumerate() {
                let here = state[index][0];
                closed[index] += product * here as f64;
                open[index] += product * sums[here].1 / sums[here].0;
            }
        }
        for index in 0..network.centres.len() {
            prop_assert!(near(ours.queue[index][0], closed[index] / total, 1e-9));
            prop_assert!(near(ours.queue[index][1], open[index] / total, 1e-9));
        }
    }
}

#[test]
fn ten_thousand_customers_at_several_servers_stay_exact() {
    // The repairman model M/M/m//N, whose states are a birth-death chain: an independent second
    // method.
    let (population, servers, think, demand) = (10_000, 64, 100.0, 1.0);
    let network = Network {
        classes: vec![class(ClassKind::Closed { population, think })],
        centres: vec![centre(CentreKind::Servers(servers), vec![demand])],
    };
    let ours = solve(&network).expect("solved");
    let mut logs = vec![0.0_f64];
    for present in 1..=population {
        let up = (population - present + 1) as f64 / think;
        let down = present.min(servers) as f64 / demand;
        logs.push(logs[present - 1] + (up / down).ln());
    }
    let top = logs.iter().copied().fold(f64::MIN, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - top).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let mean: f64 = weights.iter().enumerate().map(|(n, w)| n as f64 * w).sum::<f64>() / sum;
    assert!(near(ours.queue[0][0], mean, 1e-8), "{} {mean}", ours.queue[0][0]);
    assert!(near(ours.throughput[0], (population as f64 - mean) / think, 1e-9));
}

#[test]
fn unsolvable_networks_are_reported() {
    let open = Network {
        classes: vec![class(ClassKind::Open { rate: 2.0 })],
        centres: vec![centre(CentreKind::Queue, vec![0.6])],
    };
    assert!(solve(&open).expect_err("saturated").to_string().contains("1.200 times"));
    let idle = Network {
        classes: vec![class(ClassKind::Closed { population: 1, think: 0.0 })],
        centres: vec![centre(CentreKind::Queue, vec![0.0])],
    };
    assert!(solve(&idle).expect_err("no demand").to_string().contains("neither thinks"));
    let many = ClassKind::Closed { population: 1000, think: 1.0 };
    let huge = Network {
        classes: vec![class(many), class(many), class(many)],
        centres: vec![centre(CentreKind::Queue, vec![0.1, 0.1, 0.1])],
    };
    assert!(solve(&huge).expect_err("too large").to_string().contains("linearizer"));
}
