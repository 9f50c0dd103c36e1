//! Calibration and power, run in release.
