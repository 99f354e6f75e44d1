"""What does KEDA do about a ScaledObject or ScaledJob?

Reading order: `triggers` (which scaler asks what, and its metric's name and target), `scaledobjects` (the
HorizontalPodAutoscaler it makes, bounds, activation, fallback), `formulas` (scaling modifiers), `scaledjobs` (how many
jobs to create), `conditions`.

Source: kedacore/keda main of 2026-08 (v2.21 in the making).
"""
