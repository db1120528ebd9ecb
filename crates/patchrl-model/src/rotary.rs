//! Rotary frequencies of a model: the base, and how a longer context stretches them.
//!
//! Owns the kinds of `rope_scaling` that the engine computes and their JSON. Does not turn
//! anything (see `kernels`).

use serde_json::{Value, json};

/// How the frequencies differ from `theta^(-2 i / D)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum RopeScaling {
    /// They do not.
    #[default]
    None,
    /// All are divided by `factor` (DeepSeek-Coder).
    Linear {
        /// At least 1.
        factor: f64,
    },
    /// Low ones are divided by `factor`, high ones kept, those between blended (Llama 3.1).
    Llama3 {
        /// At least 1.
        factor: f64,
        /// Rotations over `original` positions below which a frequency counts as low.
        low: f64,
        /// Rotations over `original` positions above which a frequency counts as high.
        high: f64,
        /// Positions that the model was made for before.
        original: f64,
    },
}

impl RopeScaling {
    /// From `rope_scaling` or `rope_parameters`. The error names the field and its value.
    pub(crate) fn from_hf(value: &Value) -> Result<Self, String> {
        let kind = value["rope_type"].as_str().or(value["type"].as_str()).unwrap_or("default");
        let part = value["partial_rotary_factor"].as_f64().unwrap_or(1.0);
        if (part - 1.0).abs() > f64::EPSILON {
            return Err(format!("`partial_rotary_factor: {part}`"));
        }
        let number = |name: &str, low: f64| match value[name].as_f64() {
            Some(number) if number.is_finite() && number >= low => Ok(number),
            _ => Err(format!("rotary scaling `{kind}` with `{name}: {}`", value[name])),
        };
        match kind {
            "default" => Ok(Self::None),
            "linear" => Ok(Self::Linear { factor: number("factor", 1.0)? }),
            "llama3" => {
                let low = number("low_freq_factor", 1e-3)?;
                Ok(Self::Llama3 {
                    factor: number("factor", 1.0)?,
                    low,
                    high: number("high_freq_factor", low + 1e-3)?,
                    original: number("original_max_position_embeddings", 1.0)?,
                })
            }
            _ => Err(format!("rotary scaling `{kind}`")),
        }
    }

    /// `rope_scaling` in the form that every release of transformers reads.
    pub(crate) fn to_hf(self) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Linear { factor } => {
                json!({"rope_type": "linear", "type": "linear", "factor": factor})
            }
            Self::Llama3 { factor, low, high, original } => json!({
                "rope_type": "llama3", "type": "llama3", "factor": factor, "low_freq_factor": low,
                "high_freq_factor": high, "original_max_position_embeddings": original as u64,
            }),
        }
    }

    /// Radians per position of each pair of a head, (`head_dim` / 2,).
    ///
    /// Formulas: transformers, `modeling_rope_utils.py`.
    pub(crate) fn frequencies(self, head_dim: usize, theta: f64) -> Vec<f32> {
        let plain = (0..head_dim / 2).map(|at| theta.powf(-2.0 * at as f64 / head_dim as f64));
        plain.map(|frequency| self.scale(frequency) as f32).collect()
    }

    fn scale(self, frequency: f64) -> f64 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor,
            Self::Llama3 { factor, low, high, original } => {
                let rotations = original * frequency / std::f64::consts::TAU;
                let keep = ((rotations - low) / (high - low)).clamp(0.0, 1.0);
                (1.0 - keep) * frequency / factor + keep * frequency
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama3_keeps_the_high_and_stretches_the_low() {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 };
        let plain = RopeScaling::None.frequencies(128, 500_000.0);
        let scaled = scaling.frequencies(128, 500_000.0);
        assert_eq!(plain[0].to_bits(), scaled[0].to_bits());
        assert!((plain[63] / scaled[63] - 8.0).abs() < 1e-5);
        assert!(scaled.iter().zip(&plain).any(|(s, p)| *s < p * 0.99 && *s > p / 7.9));
    }

    #[test]
    fn kinds_go_out_and_in_and_others_are_named() {
        for scaling in [
            RopeScaling::None,
            RopeScaling::Linear { factor: 4.0 },
            RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 8192.0 },
        ] {
            assert_eq!(RopeScaling::from_hf(&scaling.to_hf()), Ok(scaling));
        }
        for (value, word) in [
            (json!({"rope_type": "yarn"}), "yarn"),
            (json!({"type": "linear", "factor": 0.0}), "factor: 0.0"),
            (json!({"type": "linear"}), "factor: null"),
            (
                json!({"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 4.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 1}),
                "high_freq",
            ),
            (json!({"partial_rotary_factor": 0.5}), "partial_rotary_factor"),
        ] {
            let error = RopeScaling::from_hf(&value).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
