"""Tests: unit (no device), conformance (every backend against oracles), e2e (whole programs)."""
