"""What is this Kueue configured to do? Its Configuration file (config.kueue.x-k8s.io v1beta1, v1beta2).

In: a document. Out: one frozen `Configuration`, or what is wrong with it in Kueue's words, with file and line. Other
parts of Kueue ask it for what concerns them: `kueue_settings()` (controllers and the scheduler),
`webhook_settings()` (the API).

Reading order: `model`, `reading` (all steps), `tables` (fields and types), `defaulting` (and conversion of v1beta1),
`validating`.

Source: apis/config, pkg/config (Kueue main, 2026-08).
"""

from __future__ import annotations

from fairway.queueing.configuration.model import Configuration
from fairway.queueing.configuration.reading import configured, faults_in, read_configuration

__all__ = ["Configuration", "configured", "faults_in", "read_configuration"]
