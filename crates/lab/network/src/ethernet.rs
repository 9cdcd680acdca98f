//! The load-dependent network centre of the seed: an Ethernet whose efficiency falls with the
//! number of stations that want to send (Metcalfe, Boggs 1976).

/// An Ethernet of one segment; units are bytes, bits per second and seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ethernet {
    /// Bytes in a frame.
    pub frame_bytes: f64,
    /// Bits per second.
    pub bits_per_second: f64,
    /// Seconds of a contention slot.
    pub slot_seconds: f64,
}

impl Ethernet {
    /// Returns the seconds to send one frame while `stations` stations have a frame to send.
    #[must_use]
    pub fn frame_seconds(&self, stations: usize) -> f64 {
        let wire = self.frame_bytes * 8.0 / self.bits_per_second;
        if stations <= 1 {
            return wire;
        }
        // Exactly one of n stations wins a slot with probability (1 - 1/n)^(n - 1).
        let others = (stations - 1) as f64;
        let won = libm::pow(1.0 - 1.0 / stations as f64, others);
        wire + self.slot_seconds * (1.0 - won) / won
    }

    /// Returns the relative rates for up to `stations` senders.
    #[must_use]
    pub fn rates(&self, stations: usize) -> Vec<f64> {
        let alone = self.frame_seconds(1);
        (1..=stations.max(1)).map(|n| alone / self.frame_seconds(n)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_equal_the_reference_table() {
        let ethernet =
            Ethernet { frame_bytes: 1024.0, bits_per_second: 10e6, slot_seconds: 51.2e-6 };
        let rates = ethernet.rates(10);
        // One station loses no frame, so relative rate and efficiency are the same number.
        for (stations, efficiency) in
            [(1, 1.0), (2, 0.9412), (3, 0.9275), (5, 0.9174), (10, 0.9101)]
        {
            assert!((rates[stations - 1] - efficiency).abs() < 5e-5, "{stations}");
        }
    }
}
