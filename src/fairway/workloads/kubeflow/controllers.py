"""The controllers of Kubeflow's training jobs, one for each kind."""

from __future__ import annotations

from fairway.workloads.controller import Controller
from fairway.workloads.kubeflow import mpi, pytorch, tensorflow, xgboost

CONTROLLERS: tuple[Controller, ...] = (
    pytorch.CONTROLLER,
    tensorflow.CONTROLLER,
    xgboost.CONTROLLER,
    mpi.CONTROLLER,
)
LAUNCHERS = mpi.CONTROLLER
"""Who hears of pods that belong to a Job which belongs to a training job."""
