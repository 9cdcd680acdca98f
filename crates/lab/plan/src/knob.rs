//! A number of a model that can be varied.

use leasehold_lab_network::model::{ClassKind, Kind, Model, Origin, Quantity, Unit};

/// The number to vary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knob {
    /// Customers of a closed class.
    Population(String),
    /// Arrivals per second of an open class.
    Rate(String),
    /// A factor on the think time of a closed class.
    Think(String),
    /// Servers of a centre.
    Servers(String),
    /// A factor on all demands at a centre.
    Demand(String),
    /// The lease term of a class' cache, in seconds.
    Term(String),
    /// Blocks in a class' cache.
    Blocks(String),
}

impl Knob {
    /// Parses `population:CLASS`, `rate:CLASS`, `think:CLASS`, `servers:CENTRE`, `demand:CENTRE`,
    /// `term:CLASS` or `blocks:CLASS`.
    ///
    /// # Errors
    /// The expected form of the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (what, name) = text.split_once(':').ok_or("needs the form WHAT:NAME")?;
        let name = name.to_owned();
        match what {
            "population" => Ok(Self::Population(name)),
            "rate" => Ok(Self::Rate(name)),
            "think" => Ok(Self::Think(name)),
            "servers" => Ok(Self::Servers(name)),
            "demand" => Ok(Self::Demand(name)),
            "term" => Ok(Self::Term(name)),
            "blocks" => Ok(Self::Blocks(name)),
            _ => Err(format!(
                "\"{what}\" is none of population, rate, think, servers, demand, term, blocks"
            )),
        }
    }

    /// Returns the name of the number, for an axis.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Self::Population(name) => format!("customers of {name}"),
            Self::Rate(name) => format!("arrivals of {name} per second"),
            Self::Think(name) => format!("think time of {name}, times"),
            Self::Servers(name) => format!("servers at {name}"),
            Self::Demand(name) => format!("demand at {name}, times"),
            Self::Term(name) => format!("lease term of {name}, s"),
            Self::Blocks(name) => format!("cache blocks of {name}"),
        }
    }

    /// The model with this number at `value`.
    /// # Errors
    /// The model has no such number, or the value makes the model invalid.
    pub fn turn(&self, model: &Model, value: f64) -> Result<Model, String> {
        let mut model = model.clone();
        let done = match self {
            Self::Servers(name) => turn_servers(&mut model, name, value),
            Self::Demand(name) => {
                let known = model.centre(name).is_some();
                for class in &mut model.classes {
                    if let Some(demand) = class.demands.get_mut(name) {
                        demand.value *= value;
                        demand.from = Origin::Assumed;
                    }
                }
                known
            }
            Self::Population(name)
            | Self::Rate(name)
            | Self::Think(name)
            | Self::Term(name)
            | Self::Blocks(name) => self.turn_class(&mut model, name, value),
        };
        if !done {
            return Err(format!("the model has nothing to turn for {self:?}"));
        }
        let problems = model.check();
        match problems.first() {
            Some(problem) => Err(format!("{} at {value}: {problem}", self.label())),
            None => Ok(model),
        }
    }

    fn turn_class(&self, model: &mut Model, name: &str, value: f64) -> bool {
        let Some(class) = model.classes.iter_mut().find(|class| class.name == name) else {
            return false;
        };
        let cache = class.cache.as_mut();
        match (self, &mut class.kind) {
            (Self::Population(_), ClassKind::Closed { population, .. }) => population.value = value,
            (Self::Rate(_), ClassKind::Open { rate, .. }) => rate.value = value,
            (Self::Think(_), ClassKind::Closed { think, .. }) => think.value *= value,
            (Self::Term(_), _) => match cache.and_then(|cache| cache.lease.as_mut()) {
                Some(lease) => {
                    lease.term = Quantity { unit: Unit::Seconds, ..Quantity::assumed(value) };
                }
                None => return false,
            },
            (Self::Blocks(_), _) => match cache {
                Some(cache) => cache.blocks = Quantity::assumed(value),
                None => return false,
            },
            _ => return false,
        }
        true
    }
}

/// Sets the number of servers; the rates of a load-dependent centre are multiplied by it.
fn turn_servers(model: &mut Model, name: &str, value: f64) -> bool {
    let Some(centre) = model.centres.iter_mut().find(|centre| centre.name == name) else {
        return false;
    };
    match &mut centre.kind {
        Kind::Delay => false,
        Kind::Queue | Kind::Servers { .. } => {
            centre.kind = if value == 1.0 {
                Kind::Queue
            } else {
                Kind::Servers { count: Quantity::assumed(value) }
            };
            true
        }
        Kind::LoadDependent { .. } | Kind::Ethernet { .. } => {
            for class in &mut model.classes {
                if let Some(demand) = class.demands.get_mut(name) {
                    demand.value /= value;
                }
            }
            true
        }
    }
}

/// Returns the number of servers of a centre, or `None` for a delay.
#[must_use]
pub fn servers(kind: &Kind) -> Option<usize> {
    match kind {
        Kind::Delay => None,
        Kind::Queue | Kind::LoadDependent { .. } | Kind::Ethernet { .. } => Some(1),
        Kind::Servers { count } => Some(count.count()),
    }
}

/// Parses `FROM..TO` or `FROM..TO:STEP`, both ends included.
///
/// # Errors
/// The expected form of the text.
pub fn range(text: &str) -> Result<Vec<f64>, String> {
    let (ends, step) = text.split_once(':').unwrap_or((text, "1"));
    let (from, to) = ends.split_once("..").ok_or("needs the form FROM..TO or FROM..TO:STEP")?;
    let number = |text: &str| text.parse::<f64>().map_err(|_| format!("\"{text}\" is no number"));
    let (from, to, step) = (number(from)?, number(to)?, number(step)?);
    let count = (to - from) / step;
    if step <= 0.0 || !(0.0..=1e5).contains(&count) {
        return Err("must rise, in at most 100000 steps".into());
    }
    let mut values = Vec::new();
    let mut index = 0.0;
    // Half a step of tolerance, for steps that are not binary fractions.
    while index <= count + 1e-9 {
        values.push(from + index * step);
        index += 1.0;
    }
    Ok(values)
}
