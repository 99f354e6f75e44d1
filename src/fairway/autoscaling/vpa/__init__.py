"""How large should containers be? VerticalPodAutoscaler: recommender, updater's choice, admission.

Reading order: `histograms` (usage that fades), `recommending` (from samples to target and bounds), `policies` (which
modes, which limits), `updating` (which pods are worth a restart), `admitting` (what new pods get).

Source: kubernetes/autoscaler vertical-pod-autoscaler (main, 2026-08), defaults of its flags.
"""
