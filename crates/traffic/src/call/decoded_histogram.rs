//! Times recorded by a client, read back to decide the next offered rate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytegauge_model::EncodedHistogram;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

/// A histogram of times.
#[derive(Clone, Debug)]
pub struct DecodedHistogram(Histogram<u64>);

impl DecodedHistogram {
    /// Reads what [`ClientCounts::report`](super::ClientCounts::report) wrote; `None` if it is damaged.
    pub fn decode(encoded: &EncodedHistogram) -> Option<DecodedHistogram> {
        let bytes = BASE64.decode(&encoded.0).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok().map(DecodedHistogram)
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The number of times above a limit, to the three digits that are kept.
    pub fn longer_than(&self, limit_ns: u64) -> u64 {
        self.0.len() - self.0.count_between(0, limit_ns)
    }

    /// The quantile of the times for a share, nanoseconds.
    pub fn at(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::client_counts::{ClientCounts, Times};

    #[test]
    fn what_was_recorded_is_read() {
        let mut record = ClientCounts::new(false, false);
        record.keep(0, 10);
        for total_ns in [1_000; 90].into_iter().chain([50_000; 10]) {
            record.completed(5, Times { connect_ns: None, write_ns: 1, first_byte_ns: 1, total_ns, late_ns: 0 });
        }
        let recorded = DecodedHistogram::decode(record.report().total.as_ref().unwrap()).unwrap();
        assert_eq!((recorded.count(), recorded.longer_than(2_000), recorded.longer_than(50_000)), (100, 10, 0));
        assert!((1_000..1_002).contains(&recorded.at(0.9)) && recorded.at(0.91) >= 50_000);
        assert!(DecodedHistogram::decode(&EncodedHistogram("no base64!".into())).is_none());
    }
}
