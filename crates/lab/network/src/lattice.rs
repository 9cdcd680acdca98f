//! The lattice of populations from zero to the full population, one dimension for each closed
//! class.

/// Positions of all population vectors up to a maximum; the last class moves fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lattice {
    population: Vec<usize>,
    strides: Vec<usize>,
    points: usize,
}

impl Lattice {
    /// Returns the lattice up to `population`, or `None` if its size overflows.
    pub(crate) fn new(population: &[usize]) -> Option<Self> {
        let mut strides = vec![0; population.len()];
        let mut points = 1_usize;
        for (stride, &count) in strides.iter_mut().zip(population).rev() {
            *stride = points;
            points = points.checked_mul(count.checked_add(1)?)?;
        }
        Some(Self { population: population.to_vec(), strides, points })
    }

    /// Returns the number of population vectors.
    pub(crate) const fn points(&self) -> usize {
        self.points
    }

    /// Returns the largest population of each class.
    pub(crate) fn population(&self) -> &[usize] {
        &self.population
    }

    /// Returns the distance between a vector and the vector with one customer of `class` less.
    pub(crate) fn stride(&self, class: usize) -> usize {
        self.strides[class]
    }

    /// Returns the position of a vector.
    pub(crate) fn index(&self, vector: &[usize]) -> usize {
        vector.iter().zip(&self.strides).map(|(count, stride)| count * stride).sum()
    }

    /// Advances to the next vector in order of position; from the last to zero.
    pub(crate) fn advance(&self, vector: &mut [usize]) {
        for (count, &most) in vector.iter_mut().zip(&self.population).rev() {
            if *count < most {
                *count += 1;
                return;
            }
            *count = 0;
        }
    }
}

/// Returns all vectors up to `population`, in order of position.
pub(crate) fn vectors(population: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let lattice = Lattice::new(population);
    let points = lattice.as_ref().map_or(0, Lattice::points);
    let mut vector = vec![0; population.len()];
    (0..points).map(move |_| {
        let current = vector.clone();
        if let Some(lattice) = &lattice {
            lattice.advance(&mut vector);
        }
        current
    })
}
