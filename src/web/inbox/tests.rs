//! Tests of the web interface.
